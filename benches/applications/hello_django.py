"""A Django application without middleware or database that responds with 13 bytes."""

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path


def hello(request: HttpRequest) -> HttpResponse:
    """Respond with 13 bytes."""
    return HttpResponse("Hello, World!", headers={"Content-Length": "13"})


urlpatterns = [path("", hello)]
settings.configure(ALLOWED_HOSTS=["*"], MIDDLEWARE=[], ROOT_URLCONF=__name__, SECRET_KEY="x" * 50)
app = get_wsgi_application()
