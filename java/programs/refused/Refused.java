import java.net.ServerSocket;

/** TeaVM has no sockets, so it refuses this program. */
public class Refused {
    public static void main(String[] arguments) throws Exception {
        System.out.println(new ServerSocket(0).getLocalPort());
    }
}
