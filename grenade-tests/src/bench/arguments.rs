//! The command line of `make bench`. Only parses.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};

const AFTER: &str = "\
Each figure is printed with its limit, and all of them are written to target/bench/report.json. Figures of a busy \
machine are worse than those of a quiet one; ratios are taken within one run, so that both sides feel it. On a \
virtual machine the share of the CPU that its host took meanwhile is reported with each part.

Examples:
  make bench                        all of them
  make bench ARGS=spread            one part
  make bench ARGS='spread rebuild'  some parts
  make bench ARGS='--repeat=5'      the full form of what is repeated whole: some ten minutes
  make bench ARGS='--json'          the report on the standard output instead of the table

Exit: 0 when every limit is kept; 1 when one is missed, or could not be measured; 2 for arguments that make no sense.";

/// The figures of Tidegate: each with its limit, measured on real programs.
#[derive(Debug, Clone, Parser)]
#[command(name = "tidegate-bench", version, after_help = AFTER)]
pub struct Arguments {
    /// What is measured [default: all]
    #[arg(value_enum)]
    pub parts: Vec<Part>,
    /// Where the report and the programs' files go [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How often whole upgrades are repeated, in turn with what they are compared with; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=20))]
    pub repeat: u32,
    /// How many rows the table of the part fill has
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = value_parser!(u32).range(1_000..=100_000_000))]
    pub rows: u32,
    /// Print the report as JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Be what a start decision is held against
    #[arg(long, value_name = "ADDR", hide = true)]
    pub bare_handler: Option<SocketAddr>,
}

/// One part of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What a turn costs at 100,000 instances (pure)
    Spread,
    /// Reading 100,000 keys into a fleet, beside the plain read (real etcd)
    Rebuild,
    /// What an agent costs when nothing happens, and that it writes nothing (real etcd)
    Rest,
    /// How soon a decision follows the report that it waited for, beside a plain put (real etcd)
    Reaction,
    /// What releases ask of etcd at 10,000 of them, and what a start decision costs (real etcd)
    Releases,
    /// What an upgrade of 50 instances takes beyond its hooks, beside a shell loop (real etcd, 50 agents)
    Overhead,
    /// How late the load generator of gate jobs sends, and its CPU beside wrk's
    Generator,
    /// What a fill of 2,000,000 rows takes, and what a load beside it feels (real PostgreSQL)
    Fill,
}

impl Part {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Rebuild => "rebuild",
            Self::Rest => "rest",
            Self::Reaction => "reaction",
            Self::Releases => "releases",
            Self::Overhead => "overhead",
            Self::Generator => "generator",
            Self::Fill => "fill",
        }
    }
}

impl Part {
    /// What it measures, as the help says it.
    pub fn about(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
    }
}

impl Arguments {
    /// What is measured, each once, in the order of the list.
    pub fn parts(&self) -> Vec<Part> {
        let asked = |part: &Part| self.parts.is_empty() || self.parts.contains(part);
        Part::value_variants().iter().copied().filter(asked).collect()
    }
}
