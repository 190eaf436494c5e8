"""What somebody may write where a page shows it, and what a page must not become of that.

Whatever runs sets `window.ran` or the title, or is refused by the page's policy, which the browser notes.
"""

HOSTILE = (
    # Elements.
    "<script>window.ran=1</script>",
    "<ScRiPt>document.title='ran'</sCrIpT>",
    "<script src=//ran.example/x.js></script>",
    "<script src='/static/ran.js'></script>",
    "<img src=x onerror=window.ran=1>",
    "<img src=/ran>",
    "<svg onload=window.ran=1>",
    "<svg><script>window.ran=1</script></svg>",
    "<math><mtext><style><img src=x onerror=window.ran=1></style></mtext></math>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<object data='javascript:window.ran=1'></object>",
    "<embed src=data:text/html,<script>parent.ran=1</script>>",
    "<details open ontoggle=window.ran=1>",
    "<input autofocus onfocus=window.ran=1>",
    "<body onload=window.ran=1>",
    "<video><source onerror=window.ran=1></video>",
    "<base href=//ran.example/>",
    "<link rel=stylesheet href=//ran.example/x.css>",
    "<meta http-equiv=refresh content='0;url=/ran'>",
    "<form action=//ran.example/><button>Pause</button>",
    "<template shadowrootmode=open><img src=x onerror=window.ran=1></template>",
    "<noscript><p title='</noscript><img src=x onerror=window.ran=1>'>",
    # Out of what it stands in.
    "</title><title>ran</title>",
    "</textarea></pre></table></select><svg onload=window.ran=1>",
    "</script><script>window.ran=1</script>",
    "</style><img src=x onerror=window.ran=1>",
    "--><img src=x onerror=window.ran=1><!--",
    "<!--",
    "]]><img src=x onerror=window.ran=1>",
    '"><img src=x onerror=window.ran=1>',
    "'><img src=x onerror=window.ran=1>",
    '" onmouseover="window.ran=1" autofocus onfocus="window.ran=1',
    "' onfocus='window.ran=1' autofocus x='",
    "x onfocus=window.ran=1 autofocus=",
    '" style="position:fixed;inset:0;background:url(/ran)',
    "`onload=window.ran=1`",
    # htmx's attributes.
    '<p hx-get="/account" hx-trigger="load" hx-target="body">',
    '<p hx-on:htmx:load="window.ran=1" data-hx-on-click="window.ran=1">',
    '" hx-get="javascript:window.ran=1" hx-trigger="load',
    '<p hx-vals="js:{ran: window.ran=1}" hx-post="/sign-out" hx-trigger="load">',
    "<partial hx-target='title'>ran</partial>",
    # Addresses.
    "javascript:window.ran=1",
    "JaVaScRiPt&colon;window.ran=1",
    "java\tscript:window.ran=1",
    "data:text/html,<script>window.ran=1</script>",
    "vbscript:ran",
    "//ran.example/../..//?a=b#c",
    "%3Cscript%3Ewindow.ran=1%3C/script%3E",
    "&lt;script&gt;window.ran=1&lt;/script&gt;",
    "&#60;img src=x onerror=window.ran=1&#62;",
    # Templates and scripts.
    "{{ 7 * 7 }}{% raw %}{{ self.__init__.__globals__ }}",
    "{count}{0}{!r}%s%(name)s${window.ran=1}#{7*7}<%= 7*7 %>",
    "'-(window.ran=1)-'\\'-(window.ran=1)-\\'",
    "\\u003cscript\\u003ewindow.ran=1\\u003c/script\\u003e",
    # Characters.
    "\u202e<tpircs>\u202c\u2066\u200b\ufeff\u00ad right to left and of no width",
    "\uff1cscript\uff1ewindow.ran=1\uff1c/script\uff1e \u2039\u02ba\u2032 look-alikes",
    "\x01\x08\x0b\x0c\x1b[31m\x7f\x85\u2028\u2029 control characters",
    "Location: //ran.example\r\nSet-Cookie: session=ran\r\n\r\n<script>window.ran=1</script>",
    "e\u0301\u0489\U0001f468\u200d\U0001f469\u200d\U0001f467\U0010fffd\ud7ff\ue000 composed, and of no plane",
    "<b>" * 1000,
)

FOREIGN = r"""() => {
    const elements =
        "iframe,object,embed,base,style,img,video,math,template,textarea,noscript,partial,b,[style]";
    const scripts = [...document.querySelectorAll("script")].filter(each => !each.src.includes("/static/"));
    const links = [...document.querySelectorAll("[href],[action],[formaction],[src]")].filter(each =>
        ["href", "action", "formaction", "src"].some(name =>
            each.hasAttribute(name) && !/^(#|\/(?!\/))/.test(each.getAttribute(name))));
    const asking = [...document.querySelectorAll("[hx-get],[hx-post],[data-hx-get]")].filter(each =>
        !/^(live|url(_\d+)?)$/.test(each.id));
    const handlers = [...document.querySelectorAll("*")].filter(each =>
        [...each.attributes].some(attribute => /^(on|hx-on|data-hx|hx-vals)/.test(attribute.name)));
    return [...document.querySelectorAll(elements), ...scripts, ...links, ...asking, ...handlers]
        .map(each => each.outerHTML.slice(0, 200));
}"""
"""What stands in a page and is none of ours, as far as it could do something."""
SHOWN = r"""() => [document.documentElement.textContent,
    ...[...document.querySelectorAll("input")].map(each => each.value)].join("\n")"""
"""All that a page says, and what its fields hold."""
