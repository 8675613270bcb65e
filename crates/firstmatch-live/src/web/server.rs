//! The listener and its connections.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::guard::Local;
use super::{State, api};

/// Maximum number of connections at once. One more ends the oldest.
const CONNECTIONS: usize = 64;
/// Time for the headers of a request.
const HEADERS: Duration = Duration::from_secs(5);
/// Maximum size of the headers of a request in bytes.
const HEADER_BYTES: usize = 16 << 10;
/// Pause after a connection could not be accepted, for example because there are too many files.
const PAUSE: Duration = Duration::from_millis(100);

/// Address to listen on, and who may ask.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address and port; port 0 takes a free one.
    pub address: SocketAddr,
    /// Names of this host that requests may ask for, beside its addresses and, on the loopback, `localhost`.
    pub hosts: Vec<String>,
}

impl ServerConfig {
    /// Returns the configuration for an address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, hosts: Vec::new() }
    }
}

/// Listener, and then the thread that answers.
#[derive(Debug)]
pub struct Server {
    listener: StdListener,
    hosts: Arc<[String]>,
}

/// Thread that answers. It ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens. Requests wait until [`Server::start`].
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn bind(config: ServerConfig) -> io::Result<Self> {
        let listener = StdListener::bind(config.address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, hosts: config.hosts.into() })
    }

    /// Returns the address that is listened on, with its port.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Starts the thread that answers.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(self, state: Arc<State>) -> io::Result<Serving> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let Self { listener, hosts } = self;
        let listener = runtime.block_on(async { TcpListener::from_std(listener) })?;
        let router = api::router(state, hosts);
        let serve = move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener, router));
                // An error means the same: the other end was dropped.
                let _stopped = stopped.await;
            });
        };
        let thread = thread::Builder::new().name("web".to_owned()).spawn(serve)?;
        Ok(Serving { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic of the thread has been printed, and nothing depends on it.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// Accepts connections for ever.
async fn accept(listener: TcpListener, router: Router) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        // The oldest is idle or slow, because an answer takes milliseconds.
        if open.len() == CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(serve(stream, router.clone())).abort_handle());
    }
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, router: Router) {
    let Ok(local) = stream.local_addr() else { return };
    let service = tower_service(router, local);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_header_size(HEADER_BYTES);
    // The client may be gone, which is no news.
    let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Returns the service of a connection to `local`, whose requests carry that address.
fn tower_service(
    router: Router,
    local: SocketAddr,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> {
    let router = TowerToHyperService::new(router);
    hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Local(local));
        hyper::service::Service::call(&router, request)
    })
}
