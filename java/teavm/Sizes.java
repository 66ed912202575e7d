import java.nio.file.Path;
import java.util.List;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/**
 * The shares of bytes that a program allocates in small, medium and large objects, from HotSpot's recording. The object
 * that does not fit into a thread's buffer any more is an object of random size, by bytes: it stands for a buffer. What
 * is made outside of the buffers is recorded object by object.
 */
public class Sizes {
    public static void main(String[] arguments) throws Exception {
        double[] bytes = new double[3];
        List<RecordedEvent> events = RecordingFile.readAllEvents(Path.of(arguments[0]));
        for (RecordedEvent event : events) {
            boolean isInBuffer = event.getEventType().getName().equals("jdk.ObjectAllocationInNewTLAB");
            long size = event.getLong("allocationSize");
            int kind = size <= 256 ? 0 : size <= 8192 ? 1 : 2;
            bytes[kind] += isInBuffer ? event.getLong("tlabSize") : size;
        }
        double all = bytes[0] + bytes[1] + bytes[2];
        System.out.printf("small %.0f%%, medium %.0f%%, large %.0f%% of %.0f MiB (%d samples)%n", 100 * bytes[0] / all,
            100 * bytes[1] / all, 100 * bytes[2] / all, all / (1 << 20), events.size());
    }
}
