// A mark below a slider. The words lean inwards at the ends, so that they never leave its width.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.slider-mark');
  const [tick, said] = root.children;
  root.classList.toggle('off', data.place === null);
  const at = data.place ?? 0;
  tick.style.left = `${100 * at}%`;
  said.style.left = `${100 * at}%`;
  said.style.transform = `translateX(${-100 * at}%)`;
  if (said.textContent !== data.text) said.textContent = data.text;
}
