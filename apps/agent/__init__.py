"""From a question to an answer: planner back ends, the loop over the run's log, and answers from the
verified history.
"""
