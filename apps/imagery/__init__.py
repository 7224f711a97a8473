"""Floor 3: scenes, ingest, readers, result layers, tiles.

Names that others use:

- ``readers.open_scene(info, path) -> SceneReader`` (the RasterReader port)
- ``layers.ArtifactLayerStore(blobs)`` (the LayerStore port over any store with ``put`` and ``path``)
- ``inspect.inspect_file(path, name, hints) -> Inspection`` (SceneInfo, findings, statistics)
- ``selectors.scene_get_for_user``, ``selectors.scene_paths``; ``services.scene_ingest_now``,
``services.scene_update``
"""
