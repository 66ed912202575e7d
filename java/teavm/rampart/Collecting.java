package rampart;

import org.teavm.interop.Import;

/** What System.gc() does. */
public final class Collecting {
    private Collecting() {
    }

    @Import(module = "rampart", name = "gc")
    public static native void collect();
}
