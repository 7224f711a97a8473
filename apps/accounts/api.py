"""Token authentication of the JSON API: `Authorization: Bearer rsure_…`."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import user_by_token
from apps.accounts.services import token_used


class TokenAuthentication(BaseAuthentication):
    """Knows the person by a token; other schemes are left to the next authentication."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        parts = get_authorization_header(request).split()
        if not parts or parts[0].lower() != b"bearer":
            return None
        found = user_by_token(parts[1].decode("latin-1")) if len(parts) == 2 else None
        if found is None:
            raise AuthenticationFailed("The token is unknown, revoked or expired.")
        token_used(token=found[1])
        return found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
