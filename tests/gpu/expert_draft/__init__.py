"""A draft of the harness's own, registered by SGLANG_EXTERNAL_MODEL_PACKAGE."""
