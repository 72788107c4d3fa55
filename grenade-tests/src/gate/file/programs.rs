//! The commands of a gate file.

use crate::gate::file::survival::Act;
use crate::gate::file::{Command, Gate, Schema};

impl Gate {
    /// Every command that runs for the whole service, in the directory of the gate file: all but those that build and
    /// start a version.
    pub fn commands(&self) -> Vec<&Command> {
        let mut all: Vec<&Command> = self.database.iter().flat_map(|(_, init)| init).collect();
        if let Some(Schema::Commands { before, contract }) = &self.schema {
            all.extend(before.iter().chain(contract));
        }
        all.extend(&self.procedure);
        all.extend(&self.load_command);
        if let Some(survival) = &self.survival {
            let stages = [
                &survival.create,
                &survival.verify,
                &survival.down,
                &survival.verify_after,
                &survival.destroy,
            ];
            all.extend(stages.into_iter().flatten().filter_map(|act| match act {
                Act::Command(command) => Some(command),
                Act::Step(_) => None,
            }));
        }
        all
    }
}
