"""Records of other agents: observations that come with arguments and an output, and with no process evidence.

Nothing here reads pixels. What can be known is what the record holds: the question, the choices, the files that exist, the
arguments, the output and the calls before. ``signs`` turns that into numbers, ``faults`` names what the record itself proves,
``forest`` is the fitted probability, ``verifier`` puts them behind the verifier's contract.
"""
