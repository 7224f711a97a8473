from django.urls import path

from apps.artifacts import views

urlpatterns = [path("artifacts/<str:digest>", views.artifact_download, name="artifact")]
