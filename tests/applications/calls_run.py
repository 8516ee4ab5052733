"""A script that starts a server wherever it runs, also when a worker imports it."""

import bolide

app = bolide.App()
bolide.run(app, port=0)
