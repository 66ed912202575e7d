//! The exceptions that the heap and the host throw.
//!
//! **Problem.** Once memory is out, there is none to make an exception. **Idea.** The launcher of a program
//! (`java/teavm/rampart/Errors.java`) makes all of them before the program starts, and hands them over. **Why
//! this way.** HotSpot does the same.

use std::process::ExitCode;

use rampart_heap::wasmtime::HeapError;
use wasmtime::{
    AsContextMut as _, Error, ExnRef, ExnRefPre, ExnType, GcHeapOutOfMemory, OwnedRooted, Result, ThrownException, Val,
    format_err,
};

use crate::imports::HostCaller;
use crate::js::JsValue;

/// What is known of the exceptions of a program.
#[derive(Default)]
pub struct Exceptions {
    /// They stay alive.
    made: Vec<(HeapError, OwnedRooted<ExnRef>)>,
    /// The launcher has printed the one that ends the program.
    pub is_reported: bool,
}

/// The functions of the launcher.
pub fn launcher_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<()> {
    match name {
        "outOfMemory" => keep(caller, HeapError::OutOfMemory, given),
        "negativeSize" => keep(caller, HeapError::NegativeSize, given),
        "reportOutOfMemory" => {
            let state = caller.data_mut();
            state.print_error("Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n");
            state.exceptions.is_reported = true;
            Ok(())
        }
        "reported" => {
            caller.data_mut().exceptions.is_reported = true;
            Ok(())
        }
        _ => Err(format_err!("the program needs rampart.{name}: was it compiled by another java/compile?")),
    }
}

/// Wraps a throwable as compiled code does, and hands it to the heap.
fn keep(caller: &mut HostCaller<'_>, error: HeapError, given: &[Val]) -> Result<()> {
    let tag = caller.get_export("teavm.javaException").and_then(|export| export.into_tag());
    let tag = tag.ok_or_else(|| format_err!("the program has no exceptions"))?;
    let ty = ExnType::from_tag_type(&tag.ty(&*caller))?;
    let allocator = ExnRefPre::new(&mut *caller, ty);
    let exception = ExnRef::new(&mut *caller, &allocator, &tag, &given[..1])?;
    let (at, kept) = (exception.to_raw(&mut *caller)?, exception.to_owned_rooted(&mut *caller)?);
    let state = caller.data_mut();
    state.share().set_exception(error, at);
    state.exceptions.made.push((error, kept));
    Ok(())
}

/// What a function of the host ends with that got no memory: the exception of Java.
pub fn thrown(caller: &mut HostCaller<'_>, error: Error) -> Error {
    if !(error.is::<GcHeapOutOfMemory<JsValue>>() || error.is::<GcHeapOutOfMemory<()>>()) {
        return error;
    }
    let made = &caller.data().exceptions.made;
    let Some(kept) = made.iter().find(|(of, _)| *of == HeapError::OutOfMemory).map(|(_, kept)| kept.clone()) else {
        return error;
    };
    let exception = kept.to_rooted(&mut *caller);
    caller.as_context_mut().throw::<()>(exception).expect_err("it throws")
}

/// How a program ends that has returned or thrown.
pub fn end(ended: Result<()>, exceptions: &Exceptions) -> Result<ExitCode> {
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is::<ThrownException>() => {
            if !exceptions.is_reported {
                // The launcher got no memory to print it. HotSpot says the same then.
                eprintln!(
                    "Exception: java.lang.OutOfMemoryError thrown from the UncaughtExceptionHandler in thread \"main\""
                );
            }
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}
