from django.contrib.auth.views import LogoutView
from django.urls import path

from apps.accounts import views

urlpatterns = [
    path("accounts/login/", views.SignInView.as_view(), name="sign_in"),
    path("accounts/logout/", LogoutView.as_view(), name="sign_out"),
    path("account/", views.account, name="account"),
    path("account/tokens/<uuid:token_id>/revoke/", views.token_delete, name="token_revoke"),
    path("projects/new/", views.project_new, name="project_new"),
    path("projects/<uuid:project_id>/members/", views.project_members, name="project_members"),
    path("projects/<uuid:project_id>/members/<int:user_id>/remove/", views.project_member_remove, name="project_member_remove"),
    path("projects/<uuid:project_id>/settings/", views.project_settings, name="project_settings"),
    path("projects/<uuid:project_id>/archive/", views.project_close, name="project_archive"),
]
