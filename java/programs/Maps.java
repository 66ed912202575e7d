import java.util.List;
import org.locationtech.jts.geom.Coordinate;
import org.locationtech.jts.geom.Envelope;
import org.locationtech.jts.geom.Geometry;
import org.locationtech.jts.geom.GeometryFactory;
import org.locationtech.jts.geom.Polygon;
import org.locationtech.jts.index.strtree.STRtree;

/** JTS keeps a map of polygons in a tree, and cuts, merges and widens those that lie in a window. */
public class Maps {
    static final GeometryFactory FACTORY = new GeometryFactory();

    /** A star-shaped polygon. Its corners lie on a grid, so that no result hangs on the last bit of a sine. */
    static Polygon polygon(Seed seed, int x, int y) {
        int corners = 8 + seed.below(24);
        Coordinate[] ring = new Coordinate[corners + 1];
        for (int i = 0; i < corners; i++) {
            double angle = 2 * Math.PI * i / corners;
            double radius = 300 + seed.below(700);
            ring[i] = new Coordinate(x + Math.rint(radius * Math.cos(angle)), y + Math.rint(radius * Math.sin(angle)));
        }
        ring[corners] = ring[0].copy();
        return FACTORY.createPolygon(ring);
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(31);
        STRtree tree = new STRtree();
        for (int i = 0; i < 8000; i++) {
            Polygon polygon = polygon(seed, seed.below(60000), seed.below(60000));
            tree.insert(polygon.getEnvelopeInternal(), polygon);
        }
        int rounds = Seed.rounds(arguments, 40);
        double area = 0;
        long points = 0;
        long found = 0;
        for (int round = 0; round < rounds; round++) {
            int x = seed.below(57000);
            int y = seed.below(57000);
            Envelope window = new Envelope(x, x + 3000, y, y + 3000);
            Geometry frame = FACTORY.toGeometry(window);
            List<?> inside = tree.query(window);
            Geometry union = FACTORY.createPolygon();
            for (Object each : inside) {
                Geometry cut = ((Geometry) each).intersection(frame);
                area += cut.convexHull().getArea();
                for (int part = 0; part < cut.getNumGeometries(); part++) {
                    if (cut.getGeometryN(part) instanceof Polygon) {
                        union = union.union(cut.getGeometryN(part));
                    }
                }
            }
            Geometry wide = union.buffer(50);
            area += union.getArea() + wide.getArea();
            points += union.getNumPoints();
            found += inside.size();
        }
        System.out.println(found + " found, " + points + " points, area " + Math.round(area / 1000) + " thousand");
    }
}
