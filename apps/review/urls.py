"""Addresses of verdicts and the review list, complete from the root."""

from django.urls import path

from apps.review import api, board, views

urlpatterns = [
    path("review/", board.review_list, name="review_list"),
    path("review/board/", board.review_board, name="review_board"),
    path("review/bulk/", board.review_bulk, name="review_bulk"),
    path("verdicts/undo/", views.verdicts_undo, name="verdicts_undo"),
    path("verdicts/redo/", views.verdicts_redo, name="verdicts_redo"),
    path("review/<str:observation_id>/verdict/", board.review_judge, name="review_judge"),
    path("observations/<str:observation_id>/verdict/", views.verdict_give, name="verdict_give"),
    path("observations/<str:observation_id>/correction/", views.correction_of, name="correction_of"),
    path("api/v1/observations/<str:observation_id>/corrections/", api.Corrections.as_view(), name="api_corrections"),
    path("observations/<str:observation_id>/claim/", views.claim_take, name="claim_take"),
    path("verdicts/<uuid:verdict_id>/undo/", views.verdict_undo, name="verdict_undo"),
    path("verdicts/<uuid:verdict_id>/redo/", views.verdict_redo, name="verdict_redo"),
    path("api/v1/verdicts/<uuid:verdict_id>/redo/", api.VerdictRedo.as_view(), name="api_verdict_redo"),
    path("api/v1/observations/<str:observation_id>/verdicts/", api.Verdicts.as_view(), name="api_verdicts"),
    path("api/v1/verdicts/<uuid:verdict_id>/", api.VerdictDetail.as_view(), name="api_verdict"),
]
