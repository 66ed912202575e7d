//! `rampart inject`: lists the faults that can be emulated.

use std::fmt::Write as _;

use clap::Subcommand;
use rampart_memory::fault::{FaultClass, InjectionSpec};
use serde_json::json;

use crate::error::Error;
use crate::output::text;

/// Commands of `rampart inject`.
#[derive(Debug, Subcommand)]
pub enum InjectCommand {
    /// List each kind of fault by name; `rampart test --inject 'stuck-at:100,seed=7'` injects some
    List {
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(command: &InjectCommand) -> Result<u8, Error> {
    let InjectCommand::List { json } = command;
    if *json {
        let kind = |(name, class): (&str, FaultClass)| json!({ "name": name, "meaning": class.meaning() });
        let option = |(option, meaning)| json!({ "option": option, "meaning": meaning });
        text::print_json(&json!({
            "kinds": FaultClass::ALL.map(kind),
            "options": InjectionSpec::OPTIONS.map(option),
        }))?;
        return Ok(0);
    }
    let mut text = String::from("KIND:COUNT injects COUNT faults at random places, KIND@FRAME one in a frame\n");
    for (name, class) in FaultClass::ALL {
        let _ = writeln!(text, "  {name:<26} {}", class.meaning());
    }
    text.push_str("options, separated by commas\n");
    for (option, meaning) in InjectionSpec::OPTIONS {
        let _ = writeln!(text, "  {option:<26} {meaning}");
    }
    text.push_str("for example `rampart test --memory 64MiB --inject 'stuck-at:100,coupling:20,seed=7'`\n");
    text::print(&text)?;
    Ok(0)
}
