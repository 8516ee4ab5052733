"""The content from Django, without middleware, a database or templates.

What CommonMiddleware does in nearly every project is done here: content of a known length says it.
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


def answer(content, status):
    """Give a content that says its length."""
    length = {"Content-Length": str(len(content))}
    return HttpResponse(content, status=status, content_type="text/plain", headers=length)


def hello(request):
    """Answer."""
    return answer(CONTENT, 200)


def handler404(request, exception):
    """Answer what is asked for at another path."""
    return answer(NOT_FOUND, 404)


urlpatterns = [path(TARGET.lstrip("/"), hello)]
app = WSGIHandler()
asgi = ASGIHandler()
