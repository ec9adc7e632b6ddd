/* Descriptions of elements, and bringing the page in line with them.

   What is on the page already is kept when its key (or place) and tag are the same, so that focus, scrolling and selected text
   survive that everything is described anew with each answer. Text only ever becomes text: nothing is parsed as HTML. */

/** Describes an element. props: `key`, `class`, `style` (an object), `on…` (handlers); booleans become bare attributes.
 *  Children may be descriptions, text, numbers, nested lists, and null or false for nothing. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children };
}

/** Makes the children of `parent` what is described. */
export function render(parent, ...children) {
  const wanted = flat(children, "");
  const kept = new Map();
  for (const node of [...parent.childNodes]) {
    const found = wanted.get(node.described);
    if (found && !kept.has(node.described) && node.nodeName === nameOf(found)) kept.set(node.described, node);
    else node.remove();
  }
  let next = parent.firstChild;
  for (const [key, described] of wanted) {
    const node = kept.get(key) ?? make(described, key);
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
    update(node, described);
  }
}

function flat(children, place, found = new Map()) {
  children.forEach((child, index) => {
    if (child === null || child === undefined || child === false) return;
    if (Array.isArray(child)) flat(child, `${place}${index}.`, found);
    else found.set(place + (child.props?.key === undefined ? index : `#${child.props.key}`), child);
  });
  return found;
}

function nameOf(described) {
  return described.tag ? described.tag.toUpperCase() : "#text";
}

function make(described, key) {
  const node = described.tag ? document.createElement(described.tag) : document.createTextNode("");
  node.described = key;
  return node;
}

function update(node, described) {
  if (!described.tag) {
    const text = String(described);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.props ?? {};
  for (const name in before) if (!(name in described.props)) set(node, name, null);
  for (const name in described.props) {
    if (before[name] !== described.props[name]) set(node, name, described.props[name]);
  }
  node.props = described.props;
  render(node, ...described.children);
}

function set(node, name, value) {
  if (name === "key") return;
  if (name.startsWith("on")) listen(node, name.slice(2), value);
  else if (name === "style") for (const each in value) node.style.setProperty(each, value[each]);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : value);
}

/** One listener for each kind of event, which calls the newest handler. */
function listen(node, type, handler) {
  node.handlers ??= {};
  if (!(type in node.handlers)) node.addEventListener(type, (event) => node.handlers[type]?.(event));
  node.handlers[type] = handler;
}
