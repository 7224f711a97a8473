"""Floor 5: rule checks by family, policy, verifier back ends. No Django, no tables, and never the code of a tool."""
