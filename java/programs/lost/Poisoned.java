import rampart.Losses;

/**
 * Holds objects of known content while somebody else makes frames below them bad. It prints the frames, "poison KIND
 * FRAME" each, or where it cannot know them, pages of its heap, "page KIND OFFSET" each. It waits for a line of
 * standard input, and finds out what is lost: each object on a frame of live ones must throw, and name itself; all
 * others must be as they were. What it prints last is the same on any Java virtual machine. Arguments: how many frames
 * of each kind; "read" to read all objects all the time instead of waiting; "work" to read and write objects of which
 * no frame goes, and to make others, until the line comes.
 */
public class Poisoned {
    static final int PAGE = 4096;
    static final int CELLS = 3000;
    static final int ARRAYS = 40;

    /** About 270 bytes. */
    static final class Cell {
        long a0, a1, a2, a3, a4, a5, a6, a7, a8, a9;
        long b0, b1, b2, b3, b4, b5, b6, b7, b8, b9;
        long c0, c1, c2, c3, c4, c5, c6, c7, c8, c9;

        Cell(long n) {
            a0 = n; a1 = n + 1; a2 = n + 2; a3 = n + 3; a4 = n + 4;
            a5 = n + 5; a6 = n + 6; a7 = n + 7; a8 = n + 8; a9 = n + 9;
            b0 = n; b1 = n + 1; b2 = n + 2; b3 = n + 3; b4 = n + 4;
            b5 = n + 5; b6 = n + 6; b7 = n + 7; b8 = n + 8; b9 = n + 9;
            c0 = n; c1 = n + 1; c2 = n + 2; c3 = n + 3; c4 = n + 4;
            c5 = n + 5; c6 = n + 6; c7 = n + 7; c8 = n + 8; c9 = n + 9;
        }

        boolean isOf(long n) {
            return (a0 == n) & (a1 == n + 1) & (a2 == n + 2) & (a3 == n + 3) & (a4 == n + 4)
                & (a5 == n + 5) & (a6 == n + 6) & (a7 == n + 7) & (a8 == n + 8) & (a9 == n + 9)
                & (b0 == n) & (b1 == n + 1) & (b2 == n + 2) & (b3 == n + 3) & (b4 == n + 4)
                & (b5 == n + 5) & (b6 == n + 6) & (b7 == n + 7) & (b8 == n + 8) & (b9 == n + 9)
                & (c0 == n) & (c1 == n + 1) & (c2 == n + 2) & (c3 == n + 3) & (c4 == n + 4)
                & (c5 == n + 5) & (c6 == n + 6) & (c7 == n + 7) & (c8 == n + 8) & (c9 == n + 9);
        }
    }

    static Cell[] cells = new Cell[CELLS];
    static boolean[] cellGoes = new boolean[CELLS];
    static byte[][] arrays = new byte[ARRAYS][];
    static boolean[] arrayGoes = new boolean[ARRAYS];
    static Cell[] dead = new Cell[CELLS];
    static int[] pages = new int[CELLS];
    static StringBuilder orders = new StringBuilder();

    /** The size of a cell: most have their next behind them. */
    static int cellBytes(Cell[] of) {
        int bytes = Integer.MAX_VALUE;
        for (int i = 1; i < of.length; i++) {
            int apart = Losses.offset(of[i]) - Losses.offset(of[i - 1]);
            if (apart > 0 && apart < bytes) {
                bytes = apart;
            }
        }
        return bytes;
    }

    /** The pages of which cells have each byte: at most so many, in "pages". */
    static int wholePages(Cell[] of, int most) {
        int bytes = cellBytes(of);
        int count = 0;
        for (int i = 0; i < of.length && count < most; i++) {
            int page = (Losses.offset(of[i]) + PAGE - 1) / PAGE * PAGE;
            int end = Losses.offset(of[i]) + bytes;
            for (int j = i + 1; j < of.length && end < page + PAGE && Losses.offset(of[j]) == end; j++) {
                end += bytes;
            }
            if (end >= page + PAGE && page < Losses.offset(of[i]) + bytes && (count == 0 || pages[count - 1] != page)) {
                pages[count++] = page;
            }
        }
        return count;
    }

    static void order(String kind, long frame) {
        orders.append("poison ").append(kind).append(' ').append(frame).append('\n');
    }

    static void orderPage(String kind, int offset) {
        long frame = Losses.frame(offset);
        if (frame >= 0) {
            order(kind, frame);
        } else {
            orders.append("page ").append(kind).append(' ').append(offset).append('\n');
        }
    }

    static void chooseFrames(int each) {
        Losses.collect();
        int found = wholePages(dead, each);
        for (int page = 0; page < found; page++) {
            orderPage("dead", pages[page]);
        }
        int bytes = cellBytes(cells);
        found = wholePages(cells, each);
        for (int page = 0; page < found; page++) {
            orderPage("live", pages[page]);
            for (int i = 0; i < CELLS; i++) {
                int at = Losses.offset(cells[i]);
                cellGoes[i] |= at < pages[page] + PAGE && at + bytes > pages[page];
            }
        }
        for (int i = 0; i < each && i < ARRAYS; i++) {
            int page = (Losses.offset(arrays[i]) + PAGE * (1 + i % 3)) / PAGE * PAGE;
            orderPage("large", page);
            arrayGoes[i] = true;
        }
        // The last ones: the heap uses the first ones next.
        int free = 0;
        while (Losses.freeFrame(free) >= 0) {
            free++;
        }
        for (int i = 1; i <= each && i <= free; i++) {
            order("free", Losses.freeFrame(free - i * (free / (2 * each) + 1)));
        }
        dead = null;
    }

    static byte byteOf(int array, int at) {
        return (byte) (array * 31 + at * 7);
    }

    static byte[] newArray(int number) {
        byte[] array = new byte[30000];
        for (int i = 0; i < array.length; i++) {
            array[i] = byteOf(number, i);
        }
        return array;
    }

    /** Whether an error names the class and the number of a lost object. */
    static boolean isNamed(Throwable error, String named) {
        String message = error.getMessage();
        return error instanceof VirtualMachineError && message.startsWith("the data of object ")
            && message.endsWith(named + ", is lost");
    }

    static void report(String kind, int lost, int expected, int named, int innocent, int wrong) {
        System.out.println("lost " + kind + " " + lost + " of " + expected + " named " + named + " innocent " + innocent
            + " wrong " + wrong);
    }

    /** Counts what is lost, and whether it was to be lost; puts new objects in its place. */
    static void findLosses() {
        int lost = 0, expected = 0, silent = 0, innocent = 0, named = 0;
        for (int i = 0; i < CELLS; i++) {
            expected += cellGoes[i] ? 1 : 0;
            try {
                if (!cells[i].isOf(i * 1000L)) {
                    silent++;
                }
            } catch (Throwable error) {
                lost++;
                named += isNamed(error, " Poisoned$Cell") ? 1 : 0;
                innocent += cellGoes[i] ? 0 : 1;
                cells[i] = new Cell(i * 1000L);
            }
        }
        report("cells", lost, expected, named, innocent, silent);
        lost = expected = silent = innocent = named = 0;
        for (int i = 0; i < ARRAYS; i++) {
            expected += arrayGoes[i] ? 1 : 0;
            try {
                byte[] array = arrays[i];
                for (int at = 0; at < array.length; at++) {
                    silent += array[at] == byteOf(i, at) ? 0 : 1;
                }
            } catch (Throwable error) {
                lost++;
                named += isNamed(error, " of class byte[]") ? 1 : 0;
                innocent += arrayGoes[i] ? 0 : 1;
                arrays[i] = newArray(i);
            }
        }
        report("arrays", lost, expected, named, innocent, silent);
    }

    /**
     * Makes few objects for each look at the others: the heap must not come to the free frames at its end before it
     * knows that they are bad.
     */
    static void workUntilTold() {
        int wrong = 0;
        long rounds = 0;
        while (!Losses.isTold()) {
            for (int i = 0; i < CELLS; i++) {
                if (!cellGoes[i]) {
                    wrong += cells[i].isOf(i * 1000L) ? 0 : 1;
                    cells[i].c9 = i * 1000L + 9;
                }
            }
            for (int i = 0; i < ARRAYS; i++) {
                if (!arrayGoes[i]) {
                    int at = (int) (rounds % arrays[i].length);
                    wrong += arrays[i][at] == byteOf(i, at) ? 0 : 1;
                }
            }
            cells[0] = cellGoes[0] ? cells[0] : new Cell(0);
            rounds++;
        }
        System.out.println(wrong == 0 && rounds > 1 ? "worked" : "wrong while it worked: " + wrong);
    }

    /** Without a call and without an object, so that nothing can be done about a lost page before it is read. */
    static void readForever() {
        long sum = 0;
        for (int i = 0; sum != 1; i = i + 1 < CELLS ? i + 1 : 0) {
            sum |= cells[i].isOf(i * 1000L) ? 0 : 1;
        }
        System.out.println("read what is not there");
    }

    public static void main(String[] arguments) {
        int each = Integer.parseInt(arguments[0]);
        for (int i = 0; i < CELLS; i++) {
            cells[i] = new Cell(i * 1000L);
        }
        Losses.collect();
        for (int i = 0; i < CELLS; i++) {
            dead[i] = new Cell(i);
        }
        for (int i = 0; i < ARRAYS; i++) {
            arrays[i] = newArray(i);
        }
        chooseFrames(each);
        System.out.print(orders);
        System.out.println("ready");
        String meanwhile = arguments.length > 1 ? arguments[1] : "wait";
        if (meanwhile.equals("read")) {
            readForever();
        } else if (meanwhile.equals("work")) {
            workUntilTold();
        } else {
            Losses.await();
        }
        findLosses();
        // The program goes on: it uses all of its memory several times.
        long hash = 7;
        Object[] kept = new Object[64];
        for (int round = 0; round < 40; round++) {
            for (int i = 0; i < 2000; i++) {
                long[] next = new long[i % 100 + 1];
                next[i % next.length] = i;
                kept[i % kept.length] = next;
                hash = hash * 31 + ((long[]) kept[i * 7 % Math.min(i + 1, kept.length)])[0] + next.length;
            }
            byte[] large = newArray(round);
            hash = hash * 31 + large[round * 700];
        }
        for (int i = 0; i < CELLS; i++) {
            hash = hash * 31 + (cells[i].isOf(i * 1000L) ? cells[i].c9 : -1);
        }
        for (int i = 0; i < ARRAYS; i++) {
            for (byte value : arrays[i]) {
                hash = hash * 31 + value;
            }
        }
        System.out.println("hash " + hash);
    }
}
