//! The exceptions that the heap and the host throw.
//!
//! **Problem.** Once memory is out, there is none to make an exception. **Idea.** The launcher of a program
//! (`java/teavm/rampart/Errors.java`) makes all of them before the program starts, and hands them over. **Why
//! this way.** HotSpot does the same.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rampart_heap::Frame;
use rampart_heap::wasmtime::{DataLost, HeapError, LostClass, are_losses_thrown};
use wasmtime::{
    AnyRef, AsContextMut as _, Error, ExnRef, ExnRefPre, ExnType, GcHeapOutOfMemory, Result, Rooted, ThrownException,
    Val, bail, format_err,
};

use crate::js::JsValue;
use crate::state::{Exceptions, HostCaller};
use crate::watching::report_cleared;

/// How many lost objects have an error of their own, where errors are thrown, and one for all others.
const LOST_ERRORS: i32 = 512;

/// What Java prints if nobody catches that memory is out.
pub const OUT_OF_MEMORY: &str = "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space";

/// The functions of the launcher.
pub fn launcher_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Option<Val>> {
    match name {
        "outOfMemory" => keep(caller, Some(HeapError::OutOfMemory), given)?,
        "negativeSize" => keep(caller, Some(HeapError::NegativeSize), given)?,
        "stackOverflow" => keep(caller, Some(HeapError::StackOverflow), given)?,
        "addLost" => keep(caller, None, given)?,
        "classOfClasses" => {
            let offset = content(caller, given)?.to_raw(&mut *caller)?;
            caller.data().share.set_class_of_classes(offset);
        }
        "lostClass" | "lostHolder" | "lostExpected" => return lost_class(caller, name, given).map(Some),
        "lostErrors" => return Ok(Some(Val::I32(if are_losses_thrown() { LOST_ERRORS } else { 16 }))),
        "lose" | "offset" | "frame" | "freeFrame" | "collect" | "await" | "isTold" => {
            return loss_function(caller, name, given);
        }
        "gc" => {
            caller.as_context_mut().gc(None)?;
            report_cleared(caller)?;
        }
        "reportOutOfMemory" => {
            let state = caller.data_mut();
            state.print_error(&format!("{OUT_OF_MEMORY}\n"));
            state.exceptions.is_reported = true;
        }
        "reported" => caller.data_mut().exceptions.is_reported = true,
        _ => bail!("the program needs rampart.{name}: was it compiled by another version?"),
    }
    Ok(None)
}

/// A class of which a lost object may be.
fn lost_class(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Val> {
    let number = given[0].i32().ok_or_else(|| format_err!("no number"))?;
    let LostClass { known, holder, expected } = caller.data().share.lost_class(DataLost(number.cast_unsigned()));
    let offset = match name {
        "lostClass" => known,
        "lostHolder" => holder,
        _ => expected,
    };
    Ok(Val::AnyRef(offset.and_then(|offset| AnyRef::from_raw(&mut *caller, offset))))
}

/// What tests of losses need.
fn loss_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Option<Val>> {
    let number = |at: usize| given[at].i32().map(i32::cast_unsigned).ok_or_else(|| format_err!("no number"));
    let frame = |frame: Option<Frame>| Val::I64(frame.map_or(-1, |frame| frame.number().cast_signed()));
    let result = match name {
        "lose" => return lose(caller, given).map(|()| None),
        "offset" => Val::I32(content(caller, given)?.to_raw(&mut *caller)?.cast_signed()),
        "frame" => frame(caller.data().share.frame_at(number(0)?)),
        "freeFrame" => frame(caller.data().share.free_frame(number(0)? as usize)),
        "collect" => {
            caller.data().share.want_frames();
            caller.as_context_mut().gc(None)?;
            return Ok(None);
        }
        "isTold" => Val::I32(is_told(caller).into()),
        _ => {
            caller.data_mut().flush();
            std::io::stdin().read_line(&mut String::new())?;
            return Ok(None);
        }
    };
    Ok(Some(result))
}

/// Whether a line of standard input has come since the program first asked.
fn is_told(caller: &mut HostCaller<'_>) -> bool {
    let state = caller.data_mut();
    if state.told.is_none() {
        state.flush();
    }
    let told = state.told.get_or_insert_with(|| {
        let told = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&told);
        thread::spawn(move || {
            // The end of the input tells the program, too.
            let _ended = std::io::stdin().read_line(&mut String::new());
            heard.store(true, Ordering::Relaxed);
        });
        told
    });
    told.load(Ordering::Relaxed)
}

/// An object, or for an array of Java the one that holds its elements.
fn content(caller: &mut HostCaller<'_>, given: &[Val]) -> Result<Rooted<AnyRef>> {
    let Val::AnyRef(Some(object)) = given[0] else { bail!("no object") };
    let Some(parts) = object.as_struct(&*caller)? else { return Ok(object) };
    let parts: Vec<Val> = parts.fields(&mut *caller)?.collect();
    for part in parts {
        if let Val::AnyRef(Some(part)) = part
            && part.is_array(&*caller)?
        {
            return Ok(part);
        }
    }
    Ok(object)
}

/// The line of a byte of an object, or of the elements of an array, is lost: for tests.
fn lose(caller: &mut HostCaller<'_>, given: &[Val]) -> Result<()> {
    let at = given[1].i32().ok_or_else(|| format_err!("nothing to lose"))?;
    let offset = content(caller, given)?.to_raw(&mut *caller)?;
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

/// Whether the heap has no memory.
pub fn is_out_of_memory(error: &Error) -> bool {
    error.is::<GcHeapOutOfMemory<JsValue>>() || error.is::<GcHeapOutOfMemory<()>>()
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
    if !is_out_of_memory(&error) {
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
