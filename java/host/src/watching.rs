//! The functions for weak references.
//!
//! **Problem.** When the object of a weak reference dies, the program must hear of it: then the reference goes into its
//! `ReferenceQueue`, and the pool of `String.intern` drops its entry. A JavaScript engine reports deaths between two
//! tasks, but a Java program here is a single task. **Idea.** Some functions of the host report deaths when the program
//! calls them. **Why these.** A report changes the queue or the pool, so it must not come while the program is changing
//! them.

use std::sync::Arc;

use wasmtime::{Result, Val, bail};

use crate::js::JsValue;
use crate::state::{HostCaller, WatchedReference};
use crate::weak::WeakHandle;

/// Makes a weak reference, or follows one.
pub fn weak_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Val> {
    match name {
        "createWeakRef" => {
            report_cleared(caller)?;
            // A reference without a queue needs no report.
            let (queue, reference) = (&given[2], &given[1]);
            create_weak(caller, given[0], "teavm.reportGarbageCollectedValue", &[queue, reference])
        }
        // The pool of strings is about to put a new entry before the others of its bucket.
        "createStringWeakRef" => create_weak(caller, given[0], "teavm.reportGarbageCollectedString", &[&given[1]]),
        _ => {
            let JsValue::Weak(weak) = JsValue::held(&*caller, &given[0])? else { bail!("no weak reference") };
            report_cleared(caller)?;
            Ok(Val::AnyRef(weak.object(caller)))
        }
    }
}

fn create_weak(caller: &mut HostCaller<'_>, object: Val, function: &'static str, given: &[&Val]) -> Result<Val> {
    let Val::AnyRef(Some(object)) = object else { bail!("a weak reference to nothing") };
    let weak = Arc::new(WeakHandle::new(Arc::clone(&caller.data().share), &mut *caller, object)?);
    let mut owned = Vec::new();
    for value in given {
        if let Val::AnyRef(Some(value)) = value {
            owned.push(value.to_owned_rooted(&mut *caller)?);
        }
    }
    if owned.len() == given.len() {
        let watched = WatchedReference { weak: Arc::clone(&weak), function, given: owned };
        caller.data_mut().weak.watched.push(watched);
    }
    JsValue::Weak(weak).reference(caller)
}

/// Reports to the program which watched references have lost their objects.
///
/// # Errors
/// If the program throws. The next call repeats that report and makes those that are left.
pub fn report_cleared(caller: &mut HostCaller<'_>) -> Result<()> {
    let cleared = caller.data().share.cleared();
    let references = &mut caller.data_mut().weak;
    if references.looked_at == cleared {
        return Ok(());
    }
    let (gone, rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut references.watched).into_iter().partition(|watched| watched.weak.is_cleared());
    (references.watched, references.looked_at) = (rest, cleared);
    let mut gone = gone.into_iter();
    while let Some(next) = gone.next() {
        if let Err(error) = report_one(caller, &next) {
            let references = &mut caller.data_mut().weak;
            references.watched.extend(std::iter::once(next).chain(gone));
            references.looked_at = cleared.wrapping_sub(1);
            return Err(error);
        }
    }
    Ok(())
}

fn report_one(caller: &mut HostCaller<'_>, gone: &WatchedReference) -> Result<()> {
    let report = caller.get_export(gone.function).and_then(|export| export.into_func());
    let given: Vec<Val> = gone.given.iter().map(|object| Val::AnyRef(Some(object.to_rooted(&mut *caller)))).collect();
    report.map_or(Ok(()), |report| report.call(&mut *caller, &given, &mut []))
}
