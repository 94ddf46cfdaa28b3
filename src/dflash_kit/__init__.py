"""Deployment kit for a patched SGLang with DFlash speculative decoding."""
