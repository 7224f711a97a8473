"""Task types and answer forms: data that the prior takes without a migration (PROTOCOL.md section 7)."""

from __future__ import annotations

TASK_TYPES: dict[str, str] = {
    "image_modality": "perception",
    "image_quality": "perception",
    "map_recognition": "perception",
    "scene_classification": "perception",
    "image_caption": "perception",
    "landmark_recognition": "perception",
    "object_counting": "perception",
    "object_localization": "perception",
    "object_presence": "perception",
    "attribute_recognition": "perception",
    "hallucination_detection": "perception",
    "attribute_comparison": "perception",
    "spatial_relationship": "perception",
    "change_detection": "perception",
    "time_property": "reasoning",
    "physical_property": "reasoning",
    "environmental_assessment": "reasoning",
    "resource_assessment": "reasoning",
    "disaster_discrimination": "reasoning",
    "geospatial_determination": "reasoning",
    "situation_analysis": "reasoning",
    "area_measurement": "measurement",
    "distance_measurement": "measurement",
    "index_statistic": "measurement",
    "trend_analysis": "measurement",
    "zonal_comparison": "measurement",
    "site_selection": "measurement",
}
ANSWER_FORMS = frozenset({"integer", "number", "area", "distance", "share", "boolean", "date", "choice", "class", "text"})
