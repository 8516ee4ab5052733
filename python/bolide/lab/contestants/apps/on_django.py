"""The content from Django, without middleware, a database or templates."""

import django
from content import CONTENT, TARGET
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=[], SECRET_KEY="race", USE_TZ=True
)
django.setup(set_prefix=False)


def hello(request):
    """Answer."""
    return HttpResponse(CONTENT, content_type="text/plain")


urlpatterns = [path(TARGET.lstrip("/"), hello)]
app = WSGIHandler()
asgi = ASGIHandler()
