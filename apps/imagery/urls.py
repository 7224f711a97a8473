"""Addresses of imagery, complete from the root."""

from django.urls import path, register_converter

from apps.imagery import api, vector_views, views


class PictureKind:
    """``png`` or ``webp``."""

    regex = "png|webp"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(PictureKind, "picture")

_TILE = "<int:z>/<int:x>/<int:y>"

urlpatterns = [
    path("imagery/", views.scene_list, name="scene_list"),
    path("imagery/table/<uuid:project_id>/", views.scene_table, name="scene_table"),
    path("imagery/stack/<uuid:project_id>/", views.scene_stacked, name="scene_stack"),
    path("imagery/vectors/table/<uuid:project_id>/", vector_views.vector_table, name="vector_table"),
    path("imagery/vectors/<uuid:vector_id>/", vector_views.vector_page, name="vector"),
    path("imagery/vectors/<uuid:vector_id>/features.json", vector_views.vector_outlines, name="vector_outlines"),
    path("imagery/vectors/<uuid:vector_id>/again/", vector_views.vector_read_again, name="vector_again"),
    path("imagery/vectors/<uuid:vector_id>/accuracy/", vector_views.vector_accuracy, name="vector_accuracy"),
    path("imagery/vectors/<uuid:vector_id>/remove/", vector_views.vector_remove, name="vector_remove"),
    path("imagery/<uuid:scene_id>/", views.scene_page, name="scene"),
    path("imagery/<uuid:scene_id>/change/", views.scene_change, name="scene_change"),
    path("imagery/<uuid:scene_id>/confirm/", views.scene_confirmed, name="scene_confirm"),
    path("imagery/<uuid:scene_id>/again/", views.scene_again, name="scene_again"),
    path("imagery/<uuid:scene_id>/remove/", views.scene_remove, name="scene_remove"),
    path("imagery/<uuid:scene_id>/thumbnail.png", views.scene_picture, {"size": "thumbnail"}, name="scene_thumbnail"),
    path("imagery/<uuid:scene_id>/card.png", views.scene_picture, {"size": "card"}, name="scene_card"),
    path("imagery/<uuid:scene_id>/preview.png", views.scene_picture, {"size": "preview"}, name="scene_preview"),
    # the name without a suffix comes last: it is what reverse() finds with four arguments
    path(f"tiles/scenes/<uuid:scene_id>/image/{_TILE}.<picture:kind>", views.tile_scene_image),
    path(f"tiles/scenes/<uuid:scene_id>/image/{_TILE}.png", views.tile_scene_image, name="tile_scene_image"),
    path(f"tiles/scenes/<uuid:scene_id>/{_TILE}.<picture:kind>", views.tile_scene),
    path(f"tiles/scenes/<uuid:scene_id>/{_TILE}.png", views.tile_scene, name="tile_scene"),
    path(f"tiles/layers/<str:digest>/image/{_TILE}.<picture:kind>", views.tile_layer_image),
    path(f"tiles/layers/<str:digest>/image/{_TILE}.png", views.tile_layer_image, name="tile_layer_image"),
    path(f"tiles/layers/<str:digest>/{_TILE}.<picture:kind>", views.tile_layer),
    path(f"tiles/layers/<str:digest>/{_TILE}.png", views.tile_layer, name="tile_layer"),
    path("tiles/layers/<str:digest>/legend.json", views.layer_legend, name="layer_legend"),
    path("api/v1/scenes/", api.SceneList.as_view(), name="api_scenes"),
    path("api/v1/scenes/<uuid:scene_id>/", api.SceneDetail.as_view(), name="api_scene"),
    path("api/v1/scenes/<uuid:scene_id>/map/", api.SceneMap.as_view(), name="api_scene_map"),
    path("api/v1/vectors/", api.VectorList.as_view(), name="api_vectors"),
    path("api/v1/vectors/<uuid:vector_id>/", api.VectorDetail.as_view(), name="api_vector"),
    path("api/v1/uploads/", api.UploadList.as_view(), name="api_uploads"),
    path("api/v1/uploads/<uuid:upload_id>/", api.UploadDetail.as_view(), name="api_upload"),
]
