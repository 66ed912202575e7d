//! The functions that TeaVM's programs import.
//!
//! Source: `wasm-gc-runtime.js` of TeaVM 0.13.1, whose functions these are by name.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wasmtime::{AsContextMut as _, ExternType, Func, Linker, Module, Result, Val, bail, format_err};

use crate::errors::{launcher_function, thrown};
use crate::js::JsValue;
use crate::state::{HostCaller, HostState};
use crate::watching::weak_function;

/// Links all functions that a module imports.
///
/// # Errors
/// If it imports something that is no function.
pub fn link(linker: &mut Linker<HostState>, module: &Module) -> Result<()> {
    for import in module.imports() {
        let ExternType::Func(ty) = import.ty() else {
            bail!("the program imports {}.{}, which is no function", import.module(), import.name());
        };
        let (space, name) = (import.module().to_owned(), import.name().to_owned());
        linker.func_new(import.module(), import.name(), ty, move |mut caller, given, results| {
            let called = call(&mut caller, (&space, &name), given, results).and_then(|()| heed_losses(&mut caller));
            called.map_err(|error| thrown(&mut caller, error))
        })?;
    }
    Ok(())
}

/// Pages were lost during the call, or before: the program must not read them.
fn heed_losses(caller: &mut HostCaller<'_>) -> Result<()> {
    if caller.data().share.is_loss_noticed() { caller.as_context_mut().gc(None) } else { Ok(()) }
}

fn call(caller: &mut HostCaller<'_>, of: (&str, &str), given: &[Val], results: &mut [Val]) -> Result<()> {
    let result = match of.0 {
        "wasm:js-string" => text_function(caller, of.1, given)?,
        "teavm" => core_function(caller, of.1, given)?,
        "teavmJso" => object_function(caller, of.1, given)?,
        "teavmMath" => math_function(of.1, given)?,
        "teavmConsole" => console_function(caller, of.1, given)?,
        "rampart" => launcher_function(caller, of.1, given)?,
        "teavmDate" if of.1 == "currentTimeMillis" => Some(milliseconds()),
        _ => bail!("the program needs {}.{}, which only browsers have", of.0, of.1),
    };
    if let (Some(place), Some(result)) = (results.first_mut(), result) {
        *place = result;
    }
    Ok(())
}

fn int(value: &Val) -> Result<i32> {
    value.i32().ok_or_else(|| format_err!("a function of the host got no number"))
}

fn text(caller: &HostCaller<'_>, value: &Val) -> Result<Arc<[u16]>> {
    match JsValue::held(caller, value)? {
        JsValue::Text(text) => Ok(text),
        other => bail!("a function of the host got no text but {other:?}"),
    }
}

fn utf16(text: &str) -> Arc<[u16]> {
    text.encode_utf16().collect()
}

fn index(value: &Val) -> Result<usize> {
    usize::try_from(int(value)?).map_err(|_| format_err!("an index of a text is negative"))
}

fn text_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Option<Val>> {
    let result = match name {
        "fromCharCode" => JsValue::Text([int(&given[0])? as u16].into()),
        "concat" => JsValue::Text([&text(caller, &given[0])?[..], &text(caller, &given[1])?].concat().into()),
        "length" => return Ok(Some(Val::I32(i32::try_from(text(caller, &given[0])?.len())?))),
        "charCodeAt" => {
            let unit = text(caller, &given[0])?.get(index(&given[1])?).copied();
            return Ok(Some(Val::I32(unit.unwrap_or_default().into())));
        }
        "substring" => {
            let text = text(caller, &given[0])?;
            let end = index(&given[2])?.min(text.len());
            JsValue::Text(text[index(&given[1])?.min(end)..end].into())
        }
        "fromCharCodeArray" => {
            let Val::AnyRef(Some(array)) = given[0] else { bail!("no array of characters") };
            let array = array.as_array(&*caller)?.ok_or_else(|| format_err!("no array of characters"))?;
            let units = (int(&given[1])?..int(&given[2])?)
                .map(|at| Ok(array.get(&mut *caller, at as u32)?.unwrap_i32() as u16))
                .collect::<Result<Vec<u16>>>()?;
            JsValue::Text(units.into())
        }
        "intoCharCodeArray" => {
            let (text, first) = (text(caller, &given[0])?, int(&given[2])? as u32);
            let Val::AnyRef(Some(array)) = given[1] else { bail!("no array of characters") };
            let array = array.as_array(&*caller)?.ok_or_else(|| format_err!("no array of characters"))?;
            for (at, unit) in (first..).zip(text.iter()) {
                array.set(&mut *caller, at, Val::I32((*unit).into()))?;
            }
            return Ok(Some(Val::I32(i32::try_from(text.len())?)));
        }
        _ => bail!("the program needs the text function {name}"),
    };
    result.reference(caller).map(Some)
}

fn core_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Option<Val>> {
    match name {
        "createWeakRef" | "createStringWeakRef" | "deref" | "stringDeref" => {
            weak_function(caller, name, given).map(Some)
        }
        // A program without a browser has no stack of JavaScript.
        "takeStackTrace" => JsValue::Object.reference(caller).map(Some),
        "decorateException" => Ok(None),
        _ => bail!("the program needs teavm.{name}, which only browsers have"),
    }
}

fn object_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Option<Val>> {
    let result = match name {
        "stringBuiltinsSupported" => return Ok(Some(Val::I32(1))),
        "isUndefined" => {
            let is = matches!(JsValue::held(caller, &given[0])?, JsValue::Undefined);
            return Ok(Some(Val::I32(is.into())));
        }
        "isPrimitive" => {
            let of = JsValue::held(&*caller, &given[0])?.type_name();
            let is = matches!(given[0], Val::ExternRef(None)) || *text(caller, &given[1])? == *utf16(of);
            return Ok(Some(Val::I32(is.into())));
        }
        "unwrapInt" => {
            let JsValue::Int(value) = JsValue::held(caller, &given[0])? else { bail!("no number") };
            return Ok(Some(Val::I32(value)));
        }
        "wrapObject" => return wrap(caller, given[0]).map(Some),
        "defineStaticMethod" | "defineMethod" => return Ok(None),
        "defineFunction" => JsValue::Function(function(&given[0])?),
        "createClass" => JsValue::Object,
        "wrapInt" => JsValue::Int(int(&given[0])?),
        "getProperty" => {
            let (object, key) = (JsValue::held(&*caller, &given[0])?, JsValue::held(&*caller, &given[1])?);
            object.property(&key)
        }
        // The last argument is JavaScript, which nobody here runs. TeaVM emits such functions to pass a value on, or to
        // read a property: we have `length`.
        "createFunction1" => JsValue::Script(text(caller, given.last().unwrap_or(&Val::I32(0)))?),
        "callFunction1" => {
            let (script, object) = (JsValue::held(&*caller, &given[0])?, JsValue::held(&*caller, &given[1])?);
            let JsValue::Script(script) = script else { bail!("no function") };
            let script = String::from_utf16_lossy(&script);
            let returned = script.trim().strip_prefix("return ").and_then(|rest| rest.strip_suffix(';'));
            match returned.map(|value| value.split_once('.').map_or("", |(_, property)| property)) {
                Some("") => return Ok(Some(given[1])),
                Some("length") => object.property(&JsValue::text("length")),
                _ => bail!("the program needs a function of JavaScript: {script}"),
            }
        }
        _ => bail!("the program needs teavmJso.{name}, which only browsers have"),
    };
    result.reference(caller).map(Some)
}

/// The Java object that stands for a value of JavaScript.
fn wrap(caller: &mut HostCaller<'_>, value: Val) -> Result<Val> {
    if matches!(value, Val::ExternRef(None)) {
        return Ok(Val::AnyRef(None));
    }
    let create = caller.get_export("teavm.jso.createWrapper").and_then(|export| export.into_func());
    let create =
        create.ok_or_else(|| format_err!("the program wraps values of JavaScript and cannot make wrappers"))?;
    let mut results = [Val::AnyRef(None)];
    create.call(&mut *caller, &[value], &mut results)?;
    Ok(results[0])
}

fn function(value: &Val) -> Result<Func> {
    match value {
        Val::FuncRef(Some(function)) => Ok(*function),
        _ => bail!("no method"),
    }
}

fn math_function(name: &str, given: &[Val]) -> Result<Option<Val>> {
    let number = |at: usize| given.get(at).and_then(Val::f64).ok_or_else(|| format_err!("no number"));
    let result = match name {
        "abs" => number(0)?.abs(),
        "acos" => number(0)?.acos(),
        "asin" => number(0)?.asin(),
        "atan" => number(0)?.atan(),
        "atan2" => number(0)?.atan2(number(1)?),
        "ceil" => number(0)?.ceil(),
        "cos" => number(0)?.cos(),
        "exp" => number(0)?.exp(),
        "floor" => number(0)?.floor(),
        "log" => number(0)?.ln(),
        "pow" => power(number(0)?, number(1)?),
        "sin" => number(0)?.sin(),
        "sqrt" => number(0)?.sqrt(),
        "tan" => number(0)?.tan(),
        _ => bail!("the program needs teavmMath.{name}"),
    };
    Ok(Some(Val::F64(result.to_bits())))
}

/// Java's power: C has 1 where Java has no number.
fn power(base: f64, exponent: f64) -> f64 {
    if exponent.is_nan() || base.abs() == 1.0 && exponent.is_infinite() {
        return f64::NAN;
    }
    base.powf(exponent)
}

fn console_function(caller: &mut HostCaller<'_>, name: &str, given: &[Val]) -> Result<Option<Val>> {
    let byte = int(&given[0])? as u8;
    let state = caller.data_mut();
    match name {
        "putcharStdout" => state.out.push(byte),
        "putcharStderr" => state.err.push(byte),
        _ => bail!("the program needs teavmConsole.{name}"),
    }
    if byte == b'\n' {
        state.flush();
    }
    Ok(None)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of some thousand years are exact")]
fn milliseconds() -> Val {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Val::F64((since.as_millis() as f64).to_bits())
}
