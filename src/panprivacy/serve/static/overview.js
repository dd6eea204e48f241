// Links to the counters, with their last estimates, where there are several.

const place = document.getElementById("overview");
const list = place.querySelector("ul");

/** Show these cards; links that stay are the same elements, so that the focus stays on them. */
export function showOverview(cards) {
  place.hidden = cards.length < 2;
  const items = cards.map((card) => document.getElementById(`link-${card.element.id}`) ?? linkTo(card));
  if (items.length !== list.children.length || items.some((item, i) => item !== list.children[i])) {
    list.replaceChildren(...items);
  }
  items.forEach((item, i) => {
    item.querySelector("span").textContent = cards[i].title;
    item.querySelector("strong").textContent = cards[i].brief;
  });
}

function linkTo(card) {
  const [item, link, title, brief] = ["li", "a", "span", "strong"].map((tag) => document.createElement(tag));
  item.id = `link-${card.element.id}`;
  link.href = `#${card.element.id}`;
  link.append(title, " ", brief);
  item.append(link);
  return item;
}
