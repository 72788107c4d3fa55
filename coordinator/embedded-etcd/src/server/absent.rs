//! Services of etcd that the embedded store does not have: every method is refused with a sentence.
//!
//! Written against the wire rather than the generated traits, whose messages `etcd-client` does not export.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    marker::PhantomData,
    task::{Context, Poll},
};

use tonic::{
    Status,
    body::Body,
    codegen::{Service, http},
    server::NamedService,
};

use crate::refusal::Refusal;

/// A service that is not there.
pub(crate) trait Missing: Send + Sync + 'static {
    /// Its full name on the wire.
    const NAME: &'static str;
    /// What is said to a call of one of its methods.
    fn refuse(method: &str) -> Refusal;
}

/// Users, roles, passwords. etcd itself refuses every authentication before it is enabled.
#[derive(Clone)]
pub(crate) enum Auth {}

impl Missing for Auth {
    const NAME: &'static str = "etcdserverpb.Auth";
    fn refuse(method: &str) -> Refusal {
        match method {
            "Authenticate" => Refusal::AuthNotEnabled,
            _ => Refusal::NotOffered("managing users, roles and authentication"),
        }
    }
}

/// Distributed locks as a service.
#[derive(Clone)]
pub(crate) enum Lock {}

impl Missing for Lock {
    const NAME: &'static str = "v3lockpb.Lock";
    fn refuse(_: &str) -> Refusal {
        Refusal::NotOffered("the lock service")
    }
}

/// Elections as a service.
#[derive(Clone)]
pub(crate) enum Election {}

impl Missing for Election {
    const NAME: &'static str = "v3electionpb.Election";
    fn refuse(_: &str) -> Refusal {
        Refusal::NotOffered("the election service")
    }
}

/// Answers for a service that is not there.
#[derive(Clone)]
pub(crate) struct Absent<S>(PhantomData<fn() -> S>);

impl<S> Default for Absent<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<S: Missing> NamedService for Absent<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Missing> Service<http::Request<Body>> for Absent<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        ready(Ok(Status::from(S::refuse(method)).into_http()))
    }
}
