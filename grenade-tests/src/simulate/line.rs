//! The line of one process to the store: the embedded store's own gRPC services, with the network in between. Requests
//! and answers take their time, are lost, late or repeated, streams are cut, and nothing passes while the process does not run.

use super::dice::Dice;
use super::gate::Gate;
use etcd_client::{Channel, Client};
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full, StreamBody};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service};

type Request = http::Request<Body>;
type Response = http::Response<Body>;
type Inner = BoxCloneSyncService<Request, Response, BoxError>;

/// How the network is, in hundredths of the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weather {
    /// Requests that never arrive.
    pub lost_requests: u64,
    /// Answers that never arrive, of requests that were carried out.
    pub lost_answers: u64,
    /// Requests that arrive late.
    pub late: u64,
    /// How late at most, in milliseconds.
    pub late_ms: u64,
}

/// How a line is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    weather: Weather,
    /// Nothing arrives at all.
    cut: bool,
    /// What watches are sent does not arrive; all else does.
    watch_hangs: bool,
    /// Some requests arrive twice; what is answered is the second one.
    repeats: bool,
    /// Raised when every stream ends.
    resets: u64,
}

/// In how many of a hundred requests one arrives twice, while requests repeat.
const REPEATED: u64 = 30;

/// The store that all lines lead to; another one can be put in its place.
#[derive(Debug, Clone)]
pub(super) struct Place {
    store: Arc<watch::Sender<Embedded>>,
    latency: u64,
}

impl Place {
    /// With a store in it, at no distance.
    pub(super) fn of(store: Embedded) -> Self {
        Self { store: Arc::new(watch::Sender::new(store)), latency: 0 }
    }

    /// So far away that a message takes so many milliseconds at most.
    pub(super) fn at(self, latency: u64) -> Self {
        Self { latency, ..self }
    }

    /// The store that is there now.
    pub(super) fn store(&self) -> Embedded {
        self.store.borrow().clone()
    }

    /// Puts another one in its place.
    pub(super) fn replace(&self, store: Embedded) {
        self.store.send_replace(store);
    }
}

/// One line.
#[derive(Clone)]
pub(super) struct Line {
    place: Place,
    gate: Gate,
    state: Arc<watch::Sender<State>>,
    dice: Arc<Mutex<Dice>>,
    inner: Arc<Mutex<Option<(Embedded, Inner)>>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn away(why: &str) -> BoxError {
    Box::new(Status::unavailable(why.to_owned()))
}

impl Line {
    /// A line to the store at `place` in good weather.
    pub(super) fn new(place: Place, gate: Gate, dice: Dice) -> Self {
        let state =
            State { weather: Weather::default(), cut: false, watch_hangs: false, repeats: false, resets: 0 };
        Self {
            place,
            gate,
            state: Arc::new(watch::Sender::new(state)),
            dice: Arc::new(Mutex::new(dice)),
            inner: Arc::default(),
        }
    }

    /// A client over it.
    ///
    /// # Errors
    /// None in practice.
    pub(super) async fn client(&self) -> Result<Client, etcd_client::Error> {
        Client::from_channel(Channel::Custom(BoxCloneSyncService::new(self.clone())), None).await
    }

    /// Changes the weather.
    pub(super) fn set_weather(&self, weather: Weather) {
        self.state.send_modify(|state| state.weather = weather);
    }

    /// Cuts the line, or restores it.
    pub(super) fn set_cut(&self, cut: bool) {
        self.state.send_modify(|state| {
            state.cut = cut;
            state.resets += u64::from(cut);
        });
    }

    /// Whether it is cut.
    pub(super) fn is_cut(&self) -> bool {
        self.state.borrow().cut
    }

    /// Has watches hang, or go on: what they were sent meanwhile then arrives.
    pub(super) fn set_watch_hangs(&self, hangs: bool) {
        self.state.send_modify(|state| state.watch_hangs = hangs);
    }

    /// Has some requests arrive twice, or none.
    pub(super) fn set_repeats(&self, repeats: bool) {
        self.state.send_modify(|state| state.repeats = repeats);
    }

    /// Ends every stream, as a member that loses its leader does.
    pub(super) fn reset(&self) {
        self.state.send_modify(|state| state.resets += 1);
    }

    /// The service of the store that is there now.
    fn inner(&self) -> Inner {
        let store = self.place.store();
        let mut inner = held(&self.inner);
        if let Some((of, service)) = inner.as_ref()
            && of.is_same(&store)
        {
            return service.clone();
        }
        let service = match store.channel() {
            Channel::Custom(service) => service,
            _ => unreachable!("the embedded store is reached in process"),
        };
        *inner = Some((store, service.clone()));
        service
    }

    fn throw(&self, of: impl FnOnce(&mut Dice, Weather) -> u64) -> u64 {
        let weather = self.state.borrow().weather;
        if weather == Weather::default() { 0 } else { of(&mut held(&self.dice), weather) }
    }

    /// How long a message is on its way.
    fn way(&self) -> Duration {
        let latency = self.place.latency;
        Duration::from_millis(if latency == 0 { 0 } else { held(&self.dice).within(0, latency) })
    }

    /// Waits as long as a message is on its way.
    async fn travels(&self) {
        let way = self.way();
        if !way.is_zero() {
            tokio::time::sleep(way).await;
        }
    }

    async fn carry(self, request: Request) -> Result<Response, BoxError> {
        self.gate.passes().await;
        let late = self.throw(|dice, weather| match dice.percent(weather.late) {
            true => dice.within(1, weather.late_ms),
            false => 0,
        });
        let on_its_way = Duration::from_millis(late) + self.way();
        if on_its_way.is_zero() {
            return self.arrive(request).await;
        }
        // It is sent, and arrives also where its process is stopped meanwhile.
        let sent = tokio::spawn(async move {
            tokio::time::sleep(on_its_way).await;
            self.arrive(request).await
        });
        // Never cancelled; its panic is passed on.
        let answer = AbortOnDropHandle::new(sent).await;
        answer.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
    }

    /// Carries out a request that is on its way, as far as the line lets it.
    async fn arrive(self, request: Request) -> Result<Response, BoxError> {
        let path = request.uri().path();
        let watches = path.ends_with("/Watch");
        let streams = watches || path.ends_with("/LeaseKeepAlive");
        if self.state.borrow().cut || self.throw(|dice, w| u64::from(dice.percent(w.lost_requests))) > 0 {
            // As long as a connection takes to be dropped.
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.gate.passes().await;
            return Err(away("the connection was reset before the request arrived"));
        }
        let mut inner = self.inner();
        if !streams {
            let answer = self.answered(&mut inner, request).await;
            self.travels().await;
            self.gate.passes().await;
            if self.state.borrow().cut || self.throw(|dice, w| u64::from(dice.percent(w.lost_answers))) > 0 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                self.gate.passes().await;
                return Err(away("the connection was reset before the answer arrived"));
            }
            return answer;
        }
        let request = request.map(|body| self.gated(body, false));
        let answer = inner.call(request).await?;
        Ok(answer.map(|body| self.gated(body, watches)))
    }

    /// The answer of the store; of a request that arrives twice, the second one.
    async fn answered(&self, inner: &mut Inner, request: Request) -> Result<Response, BoxError> {
        if !self.state.borrow().repeats || !held(&self.dice).percent(REPEATED) {
            return inner.call(request).await;
        }
        let (head, body) = request.into_parts();
        let message = body.collect().await?.to_bytes();
        let again = || Request::from_parts(head.clone(), Body::new(Full::new(message.clone())));
        inner.call(again()).await?;
        inner.call(again()).await
    }

    /// The messages of a stream, each let through in its turn, until the line is reset; `waits`: while watches hang, none is.
    fn gated(&self, body: Body, waits: bool) -> Body {
        let (line, mut state) = (self.clone(), self.state.subscribe());
        let epoch = state.borrow_and_update().resets;
        let flow = futures::stream::unfold(Some((body, line, state)), move |flow| async move {
            let (mut body, line, mut state) = flow?;
            let mut hangs = state.clone();
            let frame = tokio::select! {
                biased;
                () = reset(&mut state, epoch) => {
                    line.gate.passes().await;
                    return Some((Err(Status::unavailable("the stream was reset")), None));
                }
                frame = async {
                    let frame = body.frame().await;
                    line.travels().await;
                    if waits {
                        watches_go_on(&mut hangs).await;
                    }
                    frame
                } => frame?,
            };
            line.gate.passes().await;
            Some((frame, Some((body, line, state))))
        });
        Body::new(StreamBody::new(flow))
    }
}

/// Waits until watches do not hang; for ever where the line is gone.
async fn watches_go_on(state: &mut watch::Receiver<State>) {
    if state.wait_for(|now| !now.watch_hangs).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until the line was reset since `epoch`; for ever where it is gone.
async fn reset(state: &mut watch::Receiver<State>, epoch: u64) {
    if state.wait_for(|now| now.resets > epoch).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Service<Request> for Line {
    type Response = Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.clone().carry(request).boxed()
    }
}
