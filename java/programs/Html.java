import org.jsoup.Jsoup;
import org.jsoup.nodes.Document;
import org.jsoup.nodes.Element;

/** jsoup keeps the tree of a long page, asks it by selectors, and parses, changes and prints shorter pages. */
public class Html {
    static String page(Seed seed, int sections) {
        StringBuilder page = new StringBuilder("<!doctype html><html><head><title>");
        page.append(seed.words(4)).append("</title></head><body>");
        for (int section = 0; section < sections; section++) {
            page.append("<div class='").append(seed.word()).append(" s").append(section % 7);
            page.append("' id=i").append(section).append("><h2>").append(seed.words(3)).append("</h2>");
            for (int i = 0; i < 3; i++) {
                page.append("<p>").append(seed.words(12)).append(" <a href='/").append(seed.word());
                page.append(".html?x=1&amp;y=").append(i).append("'>").append(seed.words(2)).append("</a> <b>");
                page.append(seed.word()).append("</b> &eacute;&lt;");
            }
            page.append("<ul>");
            for (int i = 0; i < 4; i++) {
                page.append("<li><span>").append(seed.words(3)).append("</span>");
            }
            page.append("</ul><table><tr><td>").append(seed.word());
            page.append("<td>").append(seed.word()).append("</table></div>");
        }
        return page.append("</body></html>").toString();
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(5);
        Document stays = Jsoup.parse(page(seed, 1500));
        int rounds = Seed.rounds(arguments, 10);
        long hash = 0;
        for (int round = 0; round < rounds; round++) {
            Document document = Jsoup.parse(page(seed, 250));
            for (Element link : document.select("div.s3 a[href]")) {
                link.attr("rel", "nofollow").text(link.text().toUpperCase());
            }
            document.select("table").remove();
            hash = Seed.mix(hash, document.body().html());
            hash = Seed.mix(hash, stays.select("div.s" + round % 7 + " > p > b").size());
            Element changed = stays.getElementById("i" + seed.below(1500));
            Element last = changed.children().last().append("<p class=new>" + seed.words(5) + "</p>");
            last.select("p").first().addClass("first");
            hash = Seed.mix(hash, changed.text());
        }
        System.out.println(Long.toHexString(hash) + ", " + stays.getAllElements().size() + " elements");
    }
}
