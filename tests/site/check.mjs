// Looks at each page of build/site as a reader would: `node check.mjs SITE CHROMIUM [SHOTS]`.
//
// - html-validate: the HTML is valid. htmlvalidate.json has the rules and the exceptions.
// - linkinator: every link of the site leads somewhere; links to other sites are not followed.
// - axe-core in Chromium: contrast, names, headings, alternative texts; light, dark and on a phone.
// - No page is wider than a phone, none asks for a file that is missing, and the copy buttons of
//   diffs and consoles copy what can be pasted.
//
// With SHOTS, a folder, it also takes pictures of the pages in SHOWN.
// It ends with 1 and a line for each finding.

import { createServer } from "node:http";
import { mkdir, readFile, readdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { extname, join, relative } from "node:path";
import { HtmlValidate, FileSystemConfigLoader } from "html-validate";
import { LinkChecker } from "linkinator";
import puppeteer from "puppeteer-core";

const [site, chromium, shots] = process.argv.slice(2);
if (shots) await mkdir(shots, { recursive: true });
const here = new URL(".", import.meta.url).pathname;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const exceptions = JSON.parse(await readFile(join(here, "exceptions.json"), "utf8"));
const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true };
// What does not change with the colours is asked once.
const ALL = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] };
const LOOKS = [
  { name: "light", scheme: "light", viewport: DESKTOP, rules: ALL },
  { name: "dark", scheme: "dark", viewport: DESKTOP, rules: { type: "rule", values: ["color-contrast"] } },
  { name: "phone", scheme: "light", viewport: PHONE, rules: { type: "rule", values: ["target-size", "meta-viewport"] } },
];
const SHOWN = ["", "why/", "start/install/", "guides/pytorch/", "reference/errors/", "benchmarks/"];
// What looks like its neighbours: axe-core would take minutes for the tables of benchmarks.
const ALIKE = ["pre", "tbody tr:nth-child(n+4)", "dd:nth-of-type(n+9)"];
const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json",
  ".svg": "image/svg+xml", ".png": "image/png", ".xml": "text/xml", ".txt": "text/plain", ".map": "application/json" };

const findings = new Map();
const began = Date.now();
const done = (what) => console.error(`${Math.round((Date.now() - began) / 1000)} s: ${what}`);
const find = (what, page) => {
  if (!findings.has(what)) console.error(`    ${what}: ${page}`);
  findings.set(what, [...(findings.get(what) ?? []), page]);
};

async function* files(folder) {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* files(path);
    else yield path;
  }
}

const server = createServer(async (request, response) => {
  const path = decodeURIComponent(new URL(request.url, "http://site").pathname);
  try {
    const file = join(site, path.endsWith("/") ? `${path}index.html` : path);
    const body = await readFile(file);
    response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const root = `http://127.0.0.1:${server.address().port}/`;

const pages = [];
for await (const file of files(site)) {
  const name = relative(site, file);
  if (name.endsWith("index.html")) pages.push(name.slice(0, -"index.html".length));
}
pages.sort();
if (pages.length < 60) throw new Error(`only ${pages.length} pages: is ${site} the site?`);

// Valid HTML: what is around the article is the same on all pages, and long.
const loader = new FileSystemConfigLoader(JSON.parse(await readFile(join(here, "htmlvalidate.json"), "utf8")));
const validator = new HtmlValidate(loader);
for (const page of pages) {
  const whole = await readFile(join(site, page, "index.html"), "utf8");
  const article = whole.match(/<article[^>]*>(.*)<\/article>/s)?.[1];
  if (!article) throw new Error(`${page} has no article`);
  const report = await validator.validateString(page ? `<section>${article}</section>` : whole, "page.html");
  for (const result of report.results)
    for (const message of result.messages)
      find(`html: ${message.ruleId}: ${message.message}`, `${page || "home"} ${message.selector}`);
}
done("html");

// Links and files.
const checked = await new LinkChecker().check({
  path: root, recurse: true, concurrency: 20, linksToSkip: async (link) => !link.startsWith(root),
});
for (const link of checked.links)
  if (link.state === "BROKEN") find(`link: ${link.url.replace(root, "/")}`, link.parent?.replace(root, "/") ?? "");

done("links");

// In a browser.
const browser = await puppeteer.launch({
  executablePath: chromium, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});
let asked = 0;
for (const look of LOOKS) {
  // A context of its own: the site remembers the colours of the last visit.
  const context = await browser.createBrowserContext();
  const tab = await context.newPage();
  await tab.setViewport(look.viewport);
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: look.scheme }]);
  let page = "";
  tab.on("requestfailed", (request) => find(`request failed: ${request.url().replace(root, "/")}`, page));
  tab.on("pageerror", (error) => find(`script: ${error.message}`, page));
  for (page of pages) {
    await tab.goto(root + page, { waitUntil: "load" });
    const wide = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (wide > 1) find(`${look.name}: wider than the screen by ${wide} pixels`, page || "home");
    if (shots && SHOWN.includes(page)) {
      const name = page.replaceAll("/", "-").replace(/-$/, "") || "home";
      await tab.screenshot({ path: join(shots, `${name}.${look.name}.png`) });
    }
    await tab.evaluate(axe);
    const rules = look.rules, exclude = SHOWN.includes(page) ? [] : ALIKE;
    const result = await tab.evaluate((rules, exclude) => axe.run({ include: ["html"], exclude }, {
      runOnly: rules, resultTypes: ["violations"], elementRef: false,
    }), rules, exclude);
    asked += result.passes.length;
    for (const violation of result.violations) {
      const excused = exceptions.axe[violation.id];
      for (const node of violation.nodes) {
        if (excused && new RegExp(excused.where).test(node.target.join(" "))) continue;
        find(`axe ${look.name}: ${violation.id}: ${violation.help}`, `${page || "home"} ${node.target.join(" ")}`);
      }
    }
  }
  const scheme = await tab.evaluate(() => document.body.getAttribute("data-md-color-scheme"));
  if (scheme !== (look.scheme === "dark" ? "slate" : "default")) find(`${look.name}: shown in ${scheme}`, page);
  await context.close();
  done(look.name);
}
if (!asked) throw new Error("axe-core has looked at nothing");

// What the copy buttons copy.
const tab = await browser.newPage();
const copied = async (page, kind) => {
  await tab.goto(root + page, { waitUntil: "load" });
  return tab.evaluate((kind) => {
    const code = document.querySelector(`.language-${kind} code`);
    // As Material for MkDocs does it.
    code.closest(".tabbed-block")?.setAttribute("style", "display: block");
    code.setAttribute("data-md-copying", "");
    const text = code.innerText;
    code.removeAttribute("data-md-copying");
    return text;
  }, kind);
};
const diff = await copied("", "diff");
if (/^[+-]/m.test(diff) || !/^import hvdlite.torch as hvd$/m.test(diff)) find(`copy button of a diff: ${diff}`, "home");
const commands = await copied("start/install/", "console");
if (!/^hvdliterun /.test(commands) || /rank 0 of 2/.test(commands)) find(`copy button of a console: ${commands}`, "start/install");

// The search finds what is on the pages.
await tab.goto(root, { waitUntil: "load" });
await tab.click(".md-search__input, [for=__search]").catch(() => {});
await tab.type(".md-search__input", "PeerLostError", { delay: 20 });
const found = await tab.waitForSelector(".md-search-result__link", { timeout: 60000 }).catch(() => null);
if (!found) find("search: nothing for PeerLostError", "home");

await browser.close();
server.close();
const excused = Object.entries(exceptions.axe).map(([rule, { why }]) => `${rule} (${why})`);
console.log(`${pages.length} pages, ${checked.links.length} links, ${LOOKS.length} looks; left out: ${excused.join("; ") || "nothing"}`);
for (const [what, where] of findings)
  console.log(`${what}\n    ${where.length} times: ${where.slice(0, 4).join(", ")}`);
process.exit(findings.size ? 1 : 0);
