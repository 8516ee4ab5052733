//! The content from hyper on one thread: `server HOST:PORT`.

use std::convert::Infallible;
use std::error::Error;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;

const BACKLOG: u32 = 4096;

fn respond(request: &Request<Incoming>, content: &Bytes, target: &str) -> Response<Full<Bytes>> {
    let is_found = request.uri().path() == target;
    let body = if is_found { content.clone() } else { Bytes::from_static(b"Not Found") };
    let mut response = Response::new(Full::new(body));
    if !is_found {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

async fn serve(address: std::net::SocketAddr) -> Result<(), Box<dyn Error>> {
    let content = Bytes::from(std::env::var("RACE_CONTENT").unwrap_or_default());
    let target: &'static str = std::env::var("RACE_TARGET").unwrap_or("/".into()).leak();
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let content = content.clone();
        let service = service_fn(move |request| {
            let response = respond(&request, &content, target);
            async move { Ok::<_, Infallible>(response) }
        });
        tokio::task::spawn_local(async move {
            let io = TokioIo::new(stream);
            let _ = http1::Builder::new().pipeline_flush(true).serve_connection(io, service).await;
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("server HOST:PORT")?.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(address))
}
