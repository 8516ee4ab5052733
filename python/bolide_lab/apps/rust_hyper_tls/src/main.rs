//! The content from hyper on one thread with rustls, over HTTP/2 or HTTP/1.1 by ALPN: `server HOST:PORT CERTIFICATE KEY`.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::ServerConfig;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

const BACKLOG: u32 = 4096;
const H2: &[u8] = b"h2";

#[derive(Clone, Copy)]
struct Local;

impl<F: Future<Output = ()> + 'static> Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

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

fn tls(certificate: &str, key: &str) -> Result<TlsAcceptor, Box<dyn Error>> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve_one(acceptor: TlsAcceptor, stream: TcpStream, content: Bytes, target: &'static str) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    let service = service_fn(move |request| {
        let response = respond(&request, &content, target);
        async move { Ok::<_, Infallible>(response) }
    });
    let io = TokioIo::new(stream);
    if is_h2 {
        let _ = http2::Builder::new(Local).serve_connection(io, service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(io, service).await;
    }
}

async fn serve(arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let [address, certificate, key] = &arguments[..] else {
        return Err("server HOST:PORT CERTIFICATE KEY".into());
    };
    let acceptor = tls(certificate, key)?;
    let content = Bytes::from(std::env::var("RACE_CONTENT").unwrap_or_default());
    let target: &'static str = std::env::var("RACE_TARGET").unwrap_or("/".into()).leak();
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address.parse()?)?;
    let listener = socket.listen(BACKLOG)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(serve_one(acceptor.clone(), stream, content.clone(), target));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(arguments))
}
