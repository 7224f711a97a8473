"""Floor 4: the three observation tools. No tables, no Django; pixels come through the reader port."""
