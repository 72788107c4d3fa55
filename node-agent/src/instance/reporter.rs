//! What an instance reports to the store, and warnings in its log.

use super::Fatal;
use crate::admit::NotAdmitted;
use crate::directive::accept::Reading;
use crate::report::publish::{NotPublished, Publisher};
use tidegate_proto::{Chain, Generation, InstanceId, ServiceName};

pub(super) struct Reporter {
    service: ServiceName,
    pub(super) publisher: Publisher,
    /// Whether the report may be written: the store can be reached, and the key is absent or this agent's.
    pub(super) may_write: bool,
    /// The generation that was logged as older or different.
    alarmed: Option<Generation>,
    /// The last warning, until another one or an act.
    warned: Option<String>,
}

impl Reporter {
    pub(super) fn new(id: InstanceId) -> Self {
        Self {
            service: id.service.clone(),
            publisher: Publisher::new(id),
            may_write: false,
            alarmed: None,
            warned: None,
        }
    }

    /// Waits until no report is being written.
    pub(super) async fn finish(&mut self) -> Result<(), Fatal> {
        if !self.publisher.is_writing() {
            return Ok(());
        }
        let done = self.publisher.ended().await;
        self.written(done)
    }

    /// Takes in what became of a report.
    pub(super) fn written(&mut self, done: Result<(), NotPublished>) -> Result<(), Fatal> {
        match done {
            Ok(()) => Ok(()),
            Err(NotPublished::Holder(held @ NotAdmitted::Held { .. })) => Err(Fatal::Held(held)),
            Err(error) => {
                self.warn(&error);
                Ok(())
            }
        }
    }

    /// Logs what keeps the instance as it is: once, until it is another thing or something was done.
    pub(super) fn warn(&mut self, error: &dyn std::error::Error) {
        let text = Chain(error).to_string();
        if self.warned.as_ref() != Some(&text) {
            tracing::warn!(service = %self.service, error = %text, "not now");
            self.warned = Some(text);
        }
    }

    /// Something was done: the next warning is logged even if it is the same.
    pub(super) fn forget_warning(&mut self) {
        self.warned = None;
    }

    /// Logs a directive of the store that is not obeyed, once for each generation.
    pub(super) fn log_directive(
        &mut self,
        reading: &Reading,
        generation: Option<Generation>,
        accepted: Generation,
    ) {
        let text = match reading {
            Reading::Older => {
                "the store has an older directive than the one that was accepted: it was restored or replaced; the accepted one stands"
            }
            Reading::Different => {
                "the store has another directive under the generation that was accepted; the accepted one stands"
            }
            Reading::Known | Reading::Newer(_) => {
                self.alarmed = None;
                return;
            }
        };
        if self.alarmed != generation {
            tracing::error!(service = %self.service, ?generation, %accepted, "{text}");
            self.alarmed = generation;
        }
    }
}
