from django.contrib import admin
from django.contrib.auth.admin import UserAdmin

from apps.accounts.models import Membership, Project, User


@admin.register(User)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]
    list_display = ("username", "full_name", "email", "is_staff", "is_active")
    search_fields = ("username", "full_name", "email")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("full_name", "email")}),
        ("Permissions", {"fields": ("is_active", "is_staff", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )

    def get_readonly_fields(self, request: object, obj: User | None = None) -> tuple[str, ...]:
        # events and verdicts name their author by it
        return ("username",) if obj else ()


class MembershipInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "is_sample", "created_at", "archived_at")
    search_fields = ("name",)
    inlines = (MembershipInline,)
