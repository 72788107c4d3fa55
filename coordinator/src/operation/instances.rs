//! Every instance of a service, a handful at a time, so that a fleet of 20,000 neither fills a message nor holds
//! the view.

use super::{OperationError, answer, spread};
use crate::context::Context;
use futures::stream::{self, BoxStream, StreamExt};
use tidegate_proto::wire::v1::{Instance, ListInstancesRequest};
use tidegate_proto::{NodeId, ServiceName};

/// So many are read while the view is held.
const HANDFUL: usize = 500;

struct Reading {
    context: Context,
    left: Vec<ServiceName>,
    after: Option<NodeId>,
    decommissioned_too: bool,
}

/// Lists instances, by service and node. Each handful is of one revision; who comes or goes between two of them may
/// be missed or shown as it was.
pub async fn list_instances(
    context: &Context,
    asked: &ListInstancesRequest,
) -> Result<BoxStream<'static, Vec<Instance>>, OperationError> {
    let left = {
        let view = context.mirror.view();
        if asked.service.is_empty() {
            let mut names: Vec<_> = view.fleet.services().map(|service| service.name().clone()).collect();
            names.reverse();
            names
        } else {
            vec![spread::known(&view.fleet, &asked.service)?.name().clone()]
        }
    };
    let reading = Reading { context: context.clone(), left, after: None, decommissioned_too: asked.all };
    let handfuls = stream::unfold(reading, |mut reading| async move {
        let handful = reading.next()?;
        Some((handful, reading))
    });
    Ok(handfuls.boxed())
}

impl Reading {
    fn next(&mut self) -> Option<Vec<Instance>> {
        let service = self.left.last()?.clone();
        let context = self.context.clone();
        let view = context.mirror.view();
        let after = self.after.take();
        let mut handful = Vec::new();
        let mut last = None;
        if let Some(fleet) = view.fleet.service(&service) {
            let seen = |instance: &&tidegate_planner::Instance| {
                after.as_ref().is_some_and(|node| instance.node <= *node)
            };
            for instance in fleet.every_instance().skip_while(seen).take(HANDFUL) {
                last = Some(instance.node.clone());
                if instance.counts() || self.decommissioned_too {
                    handful.push(answer::instance(fleet, instance));
                }
            }
        }
        if last.is_none() {
            self.left.pop();
        }
        self.after = last;
        Some(handful)
    }
}
