"""The orchestrator: one loop, the hooks that it asks, and all that a run consists of.

Read in this order: `config` (what an agent decides), `engine` (the loop), `step` (one turn of it), `dispatch`
(its tools).
"""
