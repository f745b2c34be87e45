"""What all adapters share: every operation, gradient rule and policy, once, over a Framework of primitives.

Nothing here knows a framework. `hvdlite/torch` (and its siblings to come) brings the primitives and the signatures.
"""
