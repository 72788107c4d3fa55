//! `tidegate certificate verify`: needs no store and no coordinator.

use super::exit::{Failure, Outcome};
use super::show;
use clap::Subcommand;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use tidegate_planner::certificate::Sealed;

const AFTER: &str = "\
Example:
  tidegate upgrade certificate ID > c.json && tidegate certificate verify c.json
  tidegate upgrade certificate ID | tidegate certificate verify -

Exit codes: 0 every condition is true; 1 one is not, or this is no certificate: it says which; 2 the file cannot be read.";

/// Verbs on certificates.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Recompute every condition from the evidence inside, and the digest.
    #[command(after_help = AFTER)]
    Verify {
        /// The certificate, as `tidegate upgrade certificate` printed it; `-` reads it from stdin.
        file: PathBuf,
    },
}

/// The file, or what comes by stdin.
fn text_of(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return std::fs::read(file);
    }
    let mut text = Vec::new();
    std::io::stdin().lock().read_to_end(&mut text)?;
    Ok(text)
}

impl Args {
    /// Checks it.
    pub(super) fn run(self, as_json: bool) -> Result<Outcome, Failure> {
        let Verb::Verify { file } = self.verb;
        let text = text_of(&file)
            .map_err(|error| Failure::usage(format!("could not read {}: {error}", file.display())))?;
        let found = verify(&text);
        if as_json {
            let (part, why) = found.as_ref().err().cloned().unzip();
            show::json(&json!({ "true": found.is_ok(), "part": part, "why": why }))?;
        }
        match found {
            Ok(sealed) => {
                if !as_json {
                    let certificate = &sealed.certificate;
                    show::line(format!(
                        "true: upgrade {} of schema {}, read at revision {}, digest {}",
                        certificate.upgrade, certificate.schema, certificate.read_at, sealed.digest
                    ))?;
                }
                Ok(Outcome::Good)
            }
            Err((part, why)) => {
                show::note(format!("tidegate: the certificate is not true: {part}: {why}"));
                Ok(Outcome::Negative)
            }
        }
    }
}

fn verify(text: &[u8]) -> Result<Sealed, (String, String)> {
    let sealed: Sealed = serde_json::from_slice(text)
        .map_err(|error| ("form".to_owned(), format!("this is no certificate: {error}")))?;
    match sealed.verify() {
        Ok(()) => Ok(sealed),
        Err(flaw) => Err((flaw.part, flaw.why)),
    }
}
