//! `rampart test`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampart_diagnostic::{Machine, Request, session};
use rampart_march::Order;
use rampart_march::execute::Method;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::args::{MethodChoice, Orders, TestArguments};
use crate::error::Error;
use crate::progress::Line;
use crate::{show, store};

/// Tests memory; 0 if all that was asked for is good, 1 if bad frames were found, 2 if not all could be tested.
pub fn run(arguments: &TestArguments, path: Option<PathBuf>) -> Result<u8, Error> {
    let request = request(arguments);
    let machine = Machine::this();
    let store = store::open(path, machine.clock.now())?;
    let stop = stop_flag()?;
    let line = Line::new(arguments.json);
    let report = session::run(&request, &machine, store, &stop, &line);
    line.end();
    let report = report?;
    if arguments.json {
        show::print_json(&report)?;
    } else {
        show::print(&show::report(&report))?;
    }
    Ok(report.verdict.exit_code())
}

fn request(arguments: &TestArguments) -> Request {
    Request {
        memory: arguments.memory,
        name: arguments.march.named.map(|named| named.name.to_owned()),
        march: arguments.march.test.clone(),
        fidelity: arguments.fidelity,
        orders: match arguments.order {
            Orders::Both => vec![Order::Sequential, Order::Interleaved],
            Orders::Sequential => vec![Order::Sequential],
            Orders::Interleaved => vec![Order::Interleaved],
        },
        threads: arguments.threads,
        duration: arguments.duration,
        passes: arguments.passes,
        delay: arguments.delay,
        method: arguments.method.map(|method| match method {
            MethodChoice::NonTemporal => Method::NonTemporal,
            MethodChoice::FlushBehind => Method::FlushBehind,
        }),
        inject: arguments.inject.clone(),
        seed: arguments.seed,
    }
}

/// Set by Ctrl-C and by SIGTERM; a second one ends the process at once, as usual.
fn stop_flag() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop)).map_err(Error::Signal)?;
        flag::register(signal, Arc::clone(&stop)).map_err(Error::Signal)?;
    }
    Ok(stop)
}
