//! The exceptions that the heap and the host throw.
//!
//! **Problem.** Once memory is out, there is none to make an exception. **Idea.** The launcher of a program
//! (`java/teavm/rampart/Errors.java`) makes all of them before the program starts, and hands them over. **Why
//! this way.** HotSpot does the same.

use std::process::ExitCode;

use rampart_heap::wasmtime::{DataLost, HeapError, are_losses_thrown};
use wasmtime::{
    AnyRef, AsContextMut as _, Error, ExnRef, ExnRefPre, ExnType, GcHeapOutOfMemory, Result, ThrownException, Val,
    bail, format_err,
};

use crate::js::JsValue;
use crate::state::{Exceptions, HostCaller};

/// The functions of the launcher.
pub fn launcher_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Option<Val>> {
    match name {
        "outOfMemory" => keep(caller, Some(HeapError::OutOfMemory), given)?,
        "negativeSize" => keep(caller, Some(HeapError::NegativeSize), given)?,
        "stackOverflow" => keep(caller, Some(HeapError::StackOverflow), given)?,
        "addLost" => keep(caller, None, given)?,
        "lostClass" => {
            let number = given[0].i32().and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX);
            let class = caller.data().share.lost_class(DataLost(number));
            return Ok(Some(Val::AnyRef(class.and_then(|offset| AnyRef::from_raw(&mut *caller, offset)))));
        }
        "lose" => lose(caller, given)?,
        "reportOutOfMemory" => {
            let state = caller.data_mut();
            state.print_error("Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n");
            state.exceptions.is_reported = true;
        }
        "reported" => caller.data_mut().exceptions.is_reported = true,
        _ => bail!("the program needs rampart.{name}: was it compiled by another version?"),
    }
    Ok(None)
}

/// The line of an object's byte is lost: for tests.
fn lose(caller: &mut HostCaller<'_>, given: &[Val]) -> Result<()> {
    let (Val::AnyRef(Some(object)), Some(at)) = (given[0], given[1].i32()) else { bail!("nothing to lose") };
    let offset = object.to_raw(&mut *caller)?;
    caller.data().share.doom(offset + at.cast_unsigned());
    caller.as_context_mut().gc(None)
}

/// Wraps a throwable as compiled code does, and hands it to the heap.
fn keep(caller: &mut HostCaller<'_>, error: Option<HeapError>, given: &[Val]) -> Result<()> {
    let tag = caller.get_export("teavm.javaException").and_then(|export| export.into_tag());
    let tag = tag.ok_or_else(|| format_err!("the program has no exceptions"))?;
    let ty = ExnType::from_tag_type(&tag.ty(&*caller))?;
    let allocator = ExnRefPre::new(&mut *caller, ty);
    let exception = ExnRef::new(&mut *caller, &allocator, &tag, &given[..1])?;
    let (at, kept) = (exception.to_raw(&mut *caller)?, exception.to_owned_rooted(&mut *caller)?);
    let state = caller.data_mut();
    match error {
        Some(error) => state.share.set_exception(error, at),
        None => state.share.add_lost_exception(at),
    }
    state.exceptions.made.push((error, kept));
    Ok(())
}

/// What a function of the host ends with that got no memory, or read a lost object: the exception of Java.
pub fn thrown(caller: &mut HostCaller<'_>, error: Error) -> Error {
    if are_losses_thrown()
        && let Some(lost) = error.downcast_ref::<DataLost>()
        && let Some(at) = caller.data().share.lost_exception(*lost)
        && let Some(exception) = ExnRef::from_raw(&mut *caller, at)
    {
        return caller.as_context_mut().throw::<()>(exception).expect_err("it throws");
    }
    if !(error.is::<GcHeapOutOfMemory<JsValue>>() || error.is::<GcHeapOutOfMemory<()>>()) {
        return error;
    }
    let made = &caller.data().exceptions.made;
    let Some(kept) = made.iter().find(|(of, _)| *of == Some(HeapError::OutOfMemory)).map(|(_, kept)| kept.clone())
    else {
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
