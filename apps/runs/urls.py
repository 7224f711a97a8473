"""Addresses of runs, observations and the run's socket, complete from the root."""

from django.urls import path

from apps.runs import api, consumers, evidence_views, model_views, report_views, rereading_views, views

urlpatterns = [
    path("runs/", views.run_list, name="run_list"),
    path("runs/ask/", views.run_ask, name="run_ask"),
    path("runs/plan/", views.run_plan, name="run_plan"),
    path("runs/reread/<uuid:scene_id>/", rereading_views.scene_again_read, name="scene_reread"),
    path("runs/<uuid:run_id>/", views.run_page, name="run"),
    path("runs/<uuid:run_id>/rail/", views.run_rail, name="run_rail"),
    path("runs/<uuid:run_id>/map/", views.run_map, name="run_map"),
    path("runs/<uuid:run_id>/cancel/", views.run_cancel, name="run_cancel"),
    path("runs/<uuid:run_id>/layers/<str:digest>.geojson", views.run_layer, name="run_layer"),
    path("runs/<uuid:run_id>/values/", views.run_values, name="run_values"),
    path("runs/<uuid:run_id>/report/", report_views.run_report, name="run_report"),
    path("runs/<uuid:run_id>/report/files/<uuid:file_id>/", report_views.run_report_file, name="run_report_file"),
    path("observations/<str:observation_id>/", views.observation_page, name="observation"),
    path("observations/<str:observation_id>/panel/", views.observation_panel, name="observation_panel"),
    path("observations/<str:observation_id>/thumbnail.png", views.observation_thumbnail, name="observation_thumbnail"),
    path("observations/<str:observation_id>/evidence/", evidence_views.evidence_of, name="evidence_of"),
    path(
        "observations/<str:observation_id>/evidence/<str:ask_id>/withdraw/",
        evidence_views.evidence_withdraw,
        name="evidence_withdraw",
    ),
    path("api/v1/observations/<str:observation_id>/evidence/", evidence_views.EvidenceOf.as_view(), name="api_evidence"),
    path(
        "api/v1/observations/<str:observation_id>/evidence/<str:ask_id>/",
        evidence_views.EvidenceAskedDetail.as_view(),
        name="api_evidence_asked",
    ),
    path("models/", model_views.models_page, name="models"),
    path("api/v1/runs/", api.RunList.as_view(), name="api_runs"),
    path("api/v1/runs/<uuid:run_id>/", api.RunDetail.as_view(), name="api_run"),
    path("api/v1/runs/<uuid:run_id>/report/", report_views.RunReport.as_view(), name="api_run_report"),
    path(
        "api/v1/runs/<uuid:run_id>/report/files/<uuid:file_id>/",
        report_views.RunReportFile.as_view(),
        name="api_run_report_file",
    ),
    path("api/v1/runs/<uuid:run_id>/events/", api.RunEvents.as_view(), name="api_run_events"),
]
websocket_urlpatterns = [path("ws/runs/<uuid:run_id>/", consumers.RunConsumer.as_asgi())]
