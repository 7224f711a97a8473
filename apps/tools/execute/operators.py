"""All operators, registered on import; the registry is frozen then."""

from apps.tools.execute import operators_products, operators_summaries
from apps.tools.execute.types import OPERATORS

__all__ = ["OPERATORS", "operators_products", "operators_summaries"]
