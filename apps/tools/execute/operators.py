"""All operators, registered on import; the registry is frozen then."""

from apps.tools.execute import (
    operators_analyses,
    operators_catalog,
    operators_distributions,
    operators_grids,
    operators_images,
    operators_neighbours,
    operators_physics,
    operators_products,
    operators_spatial,
    operators_summaries,
    operators_tables,
    operators_values,
)
from apps.tools.execute.types import OPERATORS

OPERATORS.freeze()

__all__ = ["OPERATORS", "operators_analyses", "operators_catalog", "operators_distributions", "operators_grids",
           "operators_images", "operators_neighbours", "operators_physics", "operators_products", "operators_spatial",
           "operators_summaries", "operators_tables", "operators_values"]
