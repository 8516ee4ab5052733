"""What in this machine's settings holds an HTTP server back, and what does nothing for it.

`catalogue.toml` says what each kernel setting does, `rule.py` when it bites, the other checks look
at what is no setting. It reads, and writes only when told to tune (`session.py`). The way of one
examination is `examination.py`.
"""
