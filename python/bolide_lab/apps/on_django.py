"""The content from Django, without middleware, a database or templates.

Content-Length is set here, as CommonMiddleware does in nearly every project.
"""

import django
from content import CONTENT, NOT_FOUND, TARGET
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=[], SECRET_KEY="race", USE_TZ=True
)
django.setup(set_prefix=False)


def respond(content, status):
    """Return a response with Content-Length."""
    length = {"Content-Length": str(len(content))}
    return HttpResponse(content, status=status, content_type="text/plain", headers=length)


def hello(request):
    """Return the content."""
    return respond(CONTENT, 200)


def handler404(request, exception):
    """Return 404 for any other path."""
    return respond(NOT_FOUND, 404)


urlpatterns = [path(TARGET.lstrip("/"), hello)]
app = WSGIHandler()
asgi = ASGIHandler()
