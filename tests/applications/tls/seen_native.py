"""A native application that says what it sees of a TLS session."""

import os

from bolide import App, Request

app = App()


@app.get("/")
def seen(request: Request) -> dict[str, object]:
    tls = request.tls
    session = tls and {
        "version": tls.version,
        "cipher": tls.cipher,
        "server_name": tls.server_name,
        "client_name": tls.client_name,
        "client_certificate": tls.client_certificate and tls.client_certificate.hex(),
        "client_chain": tls.client_chain,
    }
    return {"pid": os.getpid(), "scheme": request.scheme, "url": request.url, "tls": session}


@app.get("/later")
async def later(request: Request) -> dict[str, object]:
    await request.body()
    return seen(request)
