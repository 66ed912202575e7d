import java.io.StringReader;
import org.luaj.vm2.Globals;
import org.luaj.vm2.LoadState;
import org.luaj.vm2.compiler.LuaC;
import org.luaj.vm2.lib.BaseLib;
import org.luaj.vm2.lib.PackageLib;
import org.luaj.vm2.lib.StringLib;
import org.luaj.vm2.lib.TableLib;

/** LuaJ, an interpreter of Lua, runs a program with trees, tables and texts, beside a tree that stays. */
public class Lua {
    static final String PROGRAM = "local function tree(d) if d == 0 then return {} end "
        + "return {tree(d-1), tree(d-1)} end "
        + "local function count(t) if t[1] then return 1 + count(t[1]) + count(t[2]) end return 1 end "
        + "stays = stays or tree(15) "
        + "local sum = count(stays) for i = 1, 8 do sum = sum + count(tree(12)) end "
        + "local texts = {} for i = 1, 40000 do texts[i] = tostring(i) .. 'x' end "
        + "local length = 0 for i = 1, #texts do length = length + #texts[i] end return sum + length";

    public static void main(String[] arguments) {
        Globals globals = new Globals();
        globals.load(new BaseLib());
        globals.load(new PackageLib());
        globals.load(new TableLib());
        globals.load(new StringLib());
        LuaC.install(globals);
        LoadState.install(globals);
        int rounds = Seed.rounds(arguments, 3);
        for (int i = 0; i < rounds; i++) {
            System.out.println(globals.load(new StringReader(PROGRAM), "program").call());
        }
    }
}
