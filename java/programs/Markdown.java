import org.commonmark.node.AbstractVisitor;
import org.commonmark.node.Heading;
import org.commonmark.node.Node;
import org.commonmark.node.Text;
import org.commonmark.parser.Parser;
import org.commonmark.renderer.html.HtmlRenderer;

/** commonmark keeps the trees of pages, and parses, visits and prints more. */
public class Markdown {
    static int texts;
    static int headings;

    static String page(Seed seed) {
        StringBuilder page = new StringBuilder();
        int sections = 10 + seed.below(20);
        for (int i = 0; i < sections; i++) {
            page.append("## ").append(seed.words(3)).append("\n\n").append(seed.words(20));
            page.append(" *").append(seed.words(2)).append("* and **").append(seed.word()).append("** `");
            page.append(seed.word()).append("` [").append(seed.word()).append("](/").append(seed.word());
            page.append(" \"t\")\n").append(seed.words(9)).append("\n\n");
            for (int item = 0; item < 4; item++) {
                page.append("- ").append(seed.words(4)).append("\n  1. ").append(seed.words(3)).append("\n");
            }
            page.append("\n> ").append(seed.words(10)).append("\n\n```\n").append(seed.words(6)).append("\n```\n\n");
        }
        return page.toString();
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(81);
        Parser parser = Parser.builder().build();
        HtmlRenderer renderer = HtmlRenderer.builder().build();
        Node[] table = new Node[150];
        int rounds = Seed.rounds(arguments, 200);
        long hash = 0;
        for (int round = 0; round < rounds + table.length; round++) {
            Node page = parser.parse(page(seed));
            table[seed.below(table.length)] = page;
            page.accept(new AbstractVisitor() {
                @Override
                public void visit(Text text) {
                    texts += text.getLiteral().length();
                }

                @Override
                public void visit(Heading heading) {
                    headings++;
                    heading.setLevel(3);
                    visitChildren(heading);
                }
            });
            hash = Seed.mix(hash, renderer.render(page));
        }
        System.out.println(Long.toHexString(hash) + ", " + texts + " characters, " + headings + " headings");
    }
}
