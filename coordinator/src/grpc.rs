//! The operators' API over gRPC. Only translates: each method calls the operation of its name, here or, for what
//! only the leader may do, at the leader.

pub mod client;
mod forward;
mod guard;
mod service;

pub use forward::Peers;
pub use guard::Token;
pub use service::OperatorService;

use crate::operation::OperationError;
use crate::telemetry::Chain;
use tonic::{Code, Status};

impl From<OperationError> for Status {
    fn from(error: OperationError) -> Self {
        let code = match &error {
            OperationError::BadInput(_) => Code::InvalidArgument,
            OperationError::NotFound(_) => Code::NotFound,
            OperationError::Refused(_) => Code::FailedPrecondition,
            OperationError::Unavailable(_) | OperationError::Store { .. } => Code::Unavailable,
        };
        Status::new(code, Chain(&error).to_string())
    }
}
